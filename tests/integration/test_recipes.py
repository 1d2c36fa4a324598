"""The recipes on a real control plane: their files are valid, and their pods get GPU memory.

The definitions of KServe, KubeRay and Kueue are those of the projects. The operators themselves are stand-ins
(``tests.support.fakes.operators``), and the nodes are simulated.
"""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from components.config_extender import Extender, Scheduler
from components.manifests import scheduler_name
from gpushare.contract import ANN_DEV, ANN_IDX, ANN_POD, LABEL_CGPU, RESOURCE_MEM
from gpushare.kubescheduler.config import parse_version
from testbed import Bed, DevkitError, SchedulerSpec, SimNode, Testbed, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from testbed.programs.binaries import release
from testbed.stories import T4
from tests.support.fakes.operators import USER_SCHEDULER, jupyterhub_pod
from tests.support.fixtures.extenders import QUICK
from tests.support.fixtures.gpu_nodes import PODS, until_event
from tests.support.fixtures.operators import RESOURCES, define, running_operators
from tests.support.fixtures.pages import ROOT, follow
from tests.support.fixtures.sidecars import apply, scheduler_of
from tests.support.fixtures.simulated import clear
from tests.support.metrics import total

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = "docs/how-to/recipes.md"
FOLDER = ROOT / "examples" / "recipes"
OURS = "gpushare-scheduler"
HUB = FOLDER / "jupyterhub" / "values.yaml"
MANIFESTS = sorted(path for path in FOLDER.rglob("*.yaml") if path != HUB)
NODE = SimNode("gpu-1", [T4], "192.168.2.1", labels={LABEL_CGPU: "true"})
JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture(scope="module")
def extender() -> ExtenderSpec:
    return ExtenderSpec(flags=QUICK)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(extender: ExtenderSpec) -> AsyncIterator[Bed]:
    """Kubernetes with our scheduler, the policy that names it, and the resources of the operators."""
    async with Testbed(scheduler=two_schedulers(extender.url)) as made:
        await grant(made)
        await start_extender(made, extender)
        await define(made)
        await apply(made, scheduler_name.objects(Extender(), Scheduler("image"), parse_version(release())))

        async def in_force() -> bool:
            return await scheduler_of(made, gpu_pod("probe", 1)) == OURS

        await until(in_force, "the policy to name the scheduler", 60)
        yield made


def two_schedulers(url: str) -> SchedulerSpec:
    """The default scheduler and ours as profiles of one process."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
        "extenders": [component_config(url)],
        "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": OURS}],
    }
    return SchedulerSpec(config=yaml.safe_dump(document))


@pytest_asyncio.fixture(loop_scope="module")
async def bed(cluster: Bed, extender: ExtenderSpec) -> AsyncIterator[Bed]:
    """The cluster with one T4 and a volume; it has no node and no workload after the test."""
    await cluster.add_nodes([NODE])
    await cluster.apply(yaml.safe_dump(volume(f"models-{uuid.uuid4().hex[:8]}")))
    yield cluster
    for path in (*RESOURCES, JOBS):
        await cluster.api.delete(path, propagationPolicy="Background")
    await cluster.kubectl("delete", "--all", "--wait=false", "persistentvolumeclaims,persistentvolumes")
    await clear(cluster, extender)


def volume(name: str) -> Object:
    """A volume for the models of Triton: nothing here provisions one."""
    spec = {
        "capacity": {"storage": "20Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/models"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def documents(path: Path) -> list[Object]:
    return list(yaml.safe_load_all(path.read_text()))


# --- the files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
async def test_the_api_server_accepts_every_object(cluster: Bed, path: Path) -> None:
    objects = documents(path)
    answer = await apply(cluster, objects, "--dry-run=server")
    assert len(answer.splitlines()) == len(objects)


MISTAKES = {
    "kserve/inferenceservice.yaml": ("spec", "predictor", "model"),
    "ray/raycluster.yaml": ("spec", "headGroupSpec"),
    "kueue/queues.yaml": ("spec",),
    "kubeflow/notebook.yaml": ("spec",),
}


@pytest.mark.parametrize("name", MISTAKES)
async def test_a_misspelled_field_is_refused(cluster: Bed, name: str) -> None:
    """So the definitions check the files."""
    changed = documents(FOLDER / name)[0]
    place = changed
    for key in MISTAKES[name]:
        place = place[key]
    place["misspelled"] = {}
    with pytest.raises(DevkitError, match="misspelled"):
        await apply(cluster, [changed], "--dry-run=server")


# --- the page -----------------------------------------------------------------------------------


SECTIONS = ["Two vLLM servers on one GPU", "Triton", "KServe", "Ray", "Kubeflow notebooks", "Kueue"]


@pytest.mark.parametrize("section", SECTIONS)
async def test_each_command_of_a_recipe_prints_what_the_page_shows(
    bed: Bed, section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    async with running_operators(bed):
        await follow(bed, PAGE, section=section)


# --- what the pods get --------------------------------------------------------------------------


async def applied(bed: Bed, *names: str) -> None:
    for name in names:
        await bed.kubectl("apply", "--filename", str(FOLDER / name))


async def placed(bed: Bed, count: int) -> list[Object]:
    """The pods with GPU memory, as soon as that many have a GPU."""

    async def there() -> list[Object] | None:
        pods = await bed.api.items(PODS)
        found = [each for each in pods if ANN_IDX in each["metadata"].get("annotations", {})]
        return found if len(found) == count else None

    found = await until(there, f"{count} pods to have a GPU", 60)
    assert found is not None
    return found


CREATED = {
    "vllm/vllm.yaml": ["6", "8"],
    "triton/triton.yaml": ["6"],
    "kserve/inferenceservice.yaml": ["6"],
    "ray/raycluster.yaml": ["6", "6"],
    "kubeflow/notebook.yaml": ["4"],
}


@pytest.mark.parametrize("name", CREATED)
async def test_pods_get_units_of_one_gpu_by_our_scheduler_without_naming_it(
    bed: Bed, extender: ExtenderSpec, name: str
) -> None:
    async with running_operators(bed):
        await applied(bed, name)
        pods = await placed(bed, len(CREATED[name]))
    annotations = [each["metadata"]["annotations"] for each in pods]
    assert sorted(each[ANN_POD] for each in annotations) == CREATED[name]
    assert {each[ANN_IDX] for each in annotations} == {"0"}
    assert {each[ANN_DEV] for each in annotations} == {"14"}
    assert {each["spec"]["schedulerName"] for each in pods} == {OURS}
    free = T4.units - sum(map(int, CREATED[name]))
    assert await total(extender.ops_url, "gpushare_card_free_units", node="gpu-1", card="0") == free


@pytest.mark.parametrize("slug", ["small", "medium"])
async def test_a_user_of_jupyterhub_gets_the_gpu_memory_of_the_profile(bed: Bed, slug: str) -> None:
    values = yaml.safe_load(HUB.read_text())
    await bed.create_pods([jupyterhub_pod(values, "ann", slug)])
    (pod,) = await placed(bed, 1)
    assert pod["metadata"]["annotations"][ANN_POD] == {"small": "4", "medium": "8"}[slug]


async def test_a_profile_of_jupyterhub_has_to_name_our_scheduler(
    bed: Bed,
) -> None:
    """The policy leaves pods alone that name another one, as those of the chart do."""
    values = yaml.safe_load(HUB.read_text())
    pod = jupyterhub_pod(values, "ann", "small")
    pod["spec"]["schedulerName"] = USER_SCHEDULER
    assert await scheduler_of(bed, pod) == USER_SCHEDULER


async def test_a_worker_of_ray_counts_one_gpu_whatever_its_memory(bed: Bed) -> None:
    async with running_operators(bed):
        await applied(bed, "ray/raycluster.yaml")
        pods = await placed(bed, 2)
    for each in pods:
        assert "--num-gpus=1" in each["spec"]["containers"][0]["args"][0]


async def test_a_notebook_of_kubeflow_has_the_tolerations_of_its_pod_default(bed: Bed) -> None:
    async with running_operators(bed):
        await applied(bed, "kubeflow/notebook.yaml")
        (pod,) = await placed(bed, 1)
    assert "nvidia.com/gpu" in [each.get("key") for each in pod["spec"]["tolerations"]]


async def test_the_second_job_of_a_queue_waits_for_the_quota_of_the_first(bed: Bed) -> None:
    async with running_operators(bed):
        await applied(bed, "kueue/queues.yaml", "kueue/jobs.yaml")

        async def complete() -> list[Object] | None:
            jobs = await bed.api.items(JOBS)
            return jobs if all("completionTime" in each["status"] for each in jobs) else None

        jobs = await until(complete, "both jobs to complete", 60)
    assert jobs is not None
    first, second = sorted(jobs, key=lambda each: str(each["metadata"]["name"]))
    assert second["status"]["startTime"] >= first["status"]["completionTime"]
    assert second["spec"]["template"]["spec"]["nodeSelector"] == {LABEL_CGPU: "true"}


async def test_a_third_server_on_a_full_gpu_is_pending_with_the_reason(bed: Bed) -> None:
    await applied(bed, "vllm/vllm.yaml")
    await placed(bed, 2)
    await bed.create_pods([gpu_pod("third", 2)])
    text = await until_event(bed, "third", lambda text: RESOURCE_MEM in text)
    assert "Insufficient aliyun.com/gpu-mem" in text
