"""GPUs that a container can access, read from the final OCI spec that runc gets.

Real kubelets, containerd, runc and NVIDIA's container runtime in CDI mode; the agent runs over a stub of
NVML. There is no GPU: the device nodes of the CDI spec are aliases of harmless devices.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gpushare import contract
from gpushare.adapters.kubelet.pods import CLUSTER_CA
from testbed import Bed, until
from testbed.control_plane.api import Object, read_text
from testbed.daemons.agent import CardNode, GpuNode, add_card_node, add_gpu_node, start_agent
from testbed.daemons.extender import ExtenderSpec
from testbed.kubelets import KubeletSpec, files
from testbed.nvml import NvmlGpu, card
from testbed.stories import manifest
from tests.support.fixtures.gpu_nodes import (
    PODS,
    SHARING,
    GpuBed,
    container,
    failed,
    gpu_bed,
    owners,
    pod,
    pod_when,
    running,
)
from tests.support.history import cards_of

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

ALL_CARDS = {"name": contract.ENV_VISIBLE_DEVICES, "value": "all"}
STATIC_PODS = "/etc/kubernetes/manifests"
HARMLESS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")


def cards(profile: str, count: int, seed: str) -> list[NvmlGpu]:
    return [card(profile, uuid=f"GPU-{seed}-{index:04x}") for index in range(count)]


P40S = cards("P40", 4, "b40")
V100S = cards("V100", 2, "a100")
T4S = cards("T4", 2, "e4")


def device(index: int) -> str:
    return f"/dev/nvidia{index}"


def cdi_spec(listed: Sequence[NvmlGpu]) -> dict[str, str]:
    """The file that NVIDIA's toolkit would create for these GPUs: by UUID, by index and "all"."""
    nodes = [{"path": device(index), "hostPath": HARMLESS[index]} for index in range(len(listed))]
    devices = [
        *({"name": one.uuid, "containerEdits": {"deviceNodes": [nodes[i]]}} for i, one in enumerate(listed)),
        *({"name": str(i), "containerEdits": {"deviceNodes": [nodes[i]]}} for i in range(len(listed))),
        {"name": "all", "containerEdits": {"deviceNodes": nodes}},
    ]
    hidden = {"env": [f"{contract.ENV_VISIBLE_DEVICES}=void"]}
    spec = {"cdiVersion": "0.5.0", "kind": contract.CDI_KIND, "devices": devices, "containerEdits": hidden}
    return {"/etc/cdi/nvidia.json": json.dumps(spec)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control_plane() -> AsyncIterator[GpuBed]:
    async with gpu_bed() as found:
        yield found


@pytest.fixture(scope="module")
def bed(control_plane: GpuBed) -> Bed:
    return control_plane.bed


@pytest.fixture(scope="module")
def extender(control_plane: GpuBed) -> ExtenderSpec:
    return control_plane.extender


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mounts(bed: Bed) -> GpuNode:
    """The P40 node of the ACK documentation as we set it up: NVIDIA runtime, GPUs by volume mounts."""
    spec = KubeletSpec(
        "mounts",
        labels=SHARING,
        runtime="nvidia",
        files={**cdi_spec(P40S), f"{STATIC_PODS}/.folder": ""},
        config={"staticPodPath": STATIC_PODS, "fileCheckFrequency": "1s"},
    )
    node = await add_card_node(bed, spec, P40S)
    await node.kubelet.stand_in("docker.io/library/gpu-player:v2")
    await mount_service_account(node)
    return await start_agent(node, ["--query-kubelet", "--device-list-strategy=volume-mounts"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cdi(bed: Bed) -> GpuNode:
    """Plain runc: containerd itself reads the CDI spec, and the agent finds that. Compute is divided too."""
    labels = {contract.LABEL_MODE: "core_mem", contract.LABEL_NO_ISOLATION: "true"}
    spec = KubeletSpec("cdi", labels=labels, files=cdi_spec(V100S))
    return await add_gpu_node(bed, spec, V100S)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def envvar(bed: Bed) -> GpuNode:
    """As the Aliyun plugin: GPUs by index in the environment, and a toolkit that accepts it."""
    believing = files.nvidia().replace("unprivileged = false", "unprivileged = true")
    spec = KubeletSpec(
        "envvar",
        labels={**SHARING, contract.LABEL_NO_ISOLATION: "true"},
        runtime="nvidia",
        files={**cdi_spec(T4S), files.NVIDIA_CONFIG: believing},
    )
    flags = ["--device-list-strategy=envvar", "--device-id-strategy=index"]
    return await add_gpu_node(bed, spec, T4S, flags=flags)


async def mount_service_account(node: CardNode) -> None:
    """The token and the CA certificate that the kubelet mounts into the agent's pod."""
    account = "/api/v1/namespaces/kube-system/serviceaccounts/gpushare-device-plugin/token"
    token = (await node.bed.api.create(account, {"spec": {}}))["status"]["token"]
    folder = node.kubelet.path(str(CLUSTER_CA.parent))
    folder.mkdir(parents=True)
    (folder / CLUSTER_CA.name).write_text(node.bed.ca_file.read_text())
    (folder / "token").write_text(token)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(bed: Bed) -> AsyncIterator[None]:
    yield
    for kind in ("Deployment", "DaemonSet"):
        await bed.api.delete(owners(kind))

    async def empty() -> bool:
        left = await bed.api.items(PODS)
        for each in left:
            await bed.api.delete(f"{PODS}/{each['metadata']['name']}", gracePeriodSeconds="1")
        return not left

    await until(empty, "all pods to be gone", 60, poll_s=0.2)


def pod_for(node: GpuNode, name: str, *containers: Object, labels: Mapping[str, str] | None = None) -> Object:
    """A pod for that node, placed by the scheduler."""
    return pod(name, *containers, labels=labels, **on(node))


def on(node: GpuNode) -> dict[str, Any]:
    """Fields of a pod for that node that, if deleted, stays in the API until its processes are gone."""
    return {"nodeSelector": {"kubernetes.io/hostname": node.name}, "terminationGracePeriodSeconds": 1}


def obedient(units: int, name: str = "main", core: int = 0, **more: Any) -> Object:
    """A container that ends on SIGTERM."""
    return container(units, name, core, **{"script": "trap exit TERM; sleep 1000 & wait", **more})


def idle(**more: Any) -> Object:
    """A container without GPU units."""
    return obedient(0, resources={}, **more)


async def start(bed: Bed, *pods: Object) -> list[Object]:
    """Create pods one after the other, each after the previous one is assigned."""
    result = []
    for each in pods:
        await bed.create_pods([each])
        result.append(await served(bed, each["metadata"]["name"]))
    return result


async def served(bed: Bed, name: str) -> Object:
    """The pod once it runs and is marked as assigned."""
    await running(bed, name, 60)

    def is_assigned(found: Object) -> bool:
        return bool(found["metadata"].get("annotations", {}).get(contract.ANN_ASSIGNED) == "true")

    return await pod_when(bed, name, is_assigned, "be assigned", 30)


async def refused(bed: Bed, name: str) -> str:
    """The reason of the kubelet for the failed admission."""
    status = (await failed(bed, name))["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    return str(status["message"])


async def only_pod(bed: Bed, app: str) -> Object:
    """The only pod of a Deployment or DaemonSet, after it is assigned."""

    async def born() -> list[Object]:
        return await bed.api.items(PODS, labelSelector=f"app={app}")

    (found,) = await until(born, f"the pod of {app}")
    return await served(bed, found["metadata"]["name"])


async def reach(node: GpuNode, name: str, container: str = "main") -> set[str]:
    """The GPUs that a container can access: device nodes that its cgroup allows."""
    spec = await node.kubelet.oci_spec(name, container)
    linux = spec["linux"]
    nodes = {each["path"]: each for each in linux.get("devices", ()) if each["path"].startswith("/dev/nv")}
    rights = [
        (rule.get("major"), rule.get("minor")) for rule in linux["resources"]["devices"] if rule["allow"]
    ]
    assert all((each["major"], each["minor"]) in rights for each in nodes.values())
    assert not [mount for mount in spec["mounts"] if mount["source"].startswith("/dev/nv")]
    return set(nodes)


async def environment(node: GpuNode, name: str, container: str = "main") -> dict[str, str]:
    """The container's environment; the last value of a name wins."""
    spec = await node.kubelet.oci_spec(name, container)
    return dict(entry.split("=", 1) for entry in spec["process"]["env"])


async def until_booked(extender: ExtenderSpec, node: GpuNode, wanted: Mapping[str, dict[int, int]]) -> None:
    """Wait until the extender's book of the node has these pods: pod → GPU → units."""

    async def booked() -> bool:
        document = json.loads(await read_text(f"{extender.url}/inspect/{node.name}"))
        found: dict[str, dict[int, int]] = {}
        for dev in document["nodes"][0]["devs"]:
            for each in dev["pods"]:
                found.setdefault(each["name"], {})[dev["id"]] = each["usedGPU"]
        return found == wanted

    await until(booked, f"the extender's book of {node.name} to have {wanted}")


async def test_the_sample_of_s3_that_requests_all_devices_reaches_its_own_gpu_only(
    bed: Bed, mounts: GpuNode
) -> None:
    await start(bed, pod_for(mounts, "filler", obedient(22)))
    sample = yaml.safe_load(manifest("binpack-1"))
    sample["spec"]["template"]["spec"] |= on(mounts)
    await bed.apply(json.dumps(sample))
    found = await only_pod(bed, "binpack-1")
    name = found["metadata"]["name"]
    assert cards_of(found) == {1: 1}
    assert await reach(mounts, name, "binpack-1") == {device(1)}
    env = await environment(mounts, name, "binpack-1")
    assert env[contract.ENV_VISIBLE_DEVICES] == "void", "the toolkit hides what the pod and the agent set"
    assert (env[contract.ENV_IDX], env[contract.ENV_POD], env[contract.ENV_DEV]) == ("1", "1", "22")
    assert contract.ENV_NO_ISOLATION not in env
    seen = await bed.kubectl("exec", name, "--", "ls", "/dev")
    assert [line for line in seen.split() if line.startswith("nvidia")] == ["nvidia1"]


async def test_a_pod_without_a_request_gets_no_gpu_by_any_variable_or_mount(
    bed: Bed, mounts: GpuNode
) -> None:
    tries = pod_for(mounts, "idle", idle(env=[ALL_CARDS]))
    tries["metadata"]["annotations"] = {"cdi.k8s.io/mine": f"{contract.CDI_KIND}=all"}
    tries["spec"]["volumes"] = [{"name": "empty", "emptyDir": {}}]
    at = f"{contract.VISIBLE_BY_MOUNTS}/all"
    tries["spec"]["containers"][0]["volumeMounts"] = [{"name": "empty", "mountPath": at}]
    await bed.create_pods([tries])
    await running(bed, "idle")
    assert await reach(mounts, "idle") == set()


async def test_several_gpus_are_reached_together(bed: Bed, mounts: GpuNode) -> None:
    wide = pod_for(mounts, "wide", obedient(30), labels={contract.LABEL_CARDS_PER_POD: "2"})
    found = (await start(bed, pod_for(mounts, "small", obedient(10)), wide))[1]
    assert cards_of(found) == {1: 15, 2: 15}
    assert await reach(mounts, "wide") == {device(1), device(2)}
    env = await environment(mounts, "wide")
    assert (env[contract.ENV_IDX], env[contract.ENV_POD], env[contract.ENV_DEV]) == ("1", "30", "22")


async def test_init_container_sidecar_and_main_reach_the_same_gpu(bed: Bed, mounts: GpuNode) -> None:
    family = pod_for(mounts, "family", obedient(4))
    family["spec"]["initContainers"] = [
        container(6, "init", script="until [ -e /tmp/go ]; do sleep 0.1; done"),
        obedient(3, "sidecar", restartPolicy="Always"),
    ]
    await start(bed, pod_for(mounts, "filler", obedient(20)))
    await bed.create_pods([family])
    await until(lambda: has_begun(bed, "family"), "the init container to run")
    assert await reach(mounts, "family", "init") == {device(1)}
    await bed.kubectl("exec", "family", "-c", "init", "--", "touch", "/tmp/go")  # noqa: S108 - the container's own
    found = await served(bed, "family")
    assert cards_of(found) == {1: 7}
    for name, units in (("sidecar", "3"), ("main", "4")):
        assert await reach(mounts, "family", name) == {device(1)}
        env = await environment(mounts, "family", name)
        assert (env[contract.ENV_POD], env[contract.ENV_CONTAINER]) == ("7", units)


async def has_begun(bed: Bed, name: str) -> bool:
    status = (await bed.api.get(f"{PODS}/{name}"))["status"]
    return any("running" in each["state"] for each in status.get("initContainerStatuses", ()))


async def test_pods_that_no_scheduler_placed_get_a_gpu_that_the_extender_counts(
    bed: Bed, mounts: GpuNode, extender: ExtenderSpec
) -> None:
    straight = {**on(mounts), "nodeName": mounts.name}
    pods = [pod("first", obedient(20), **straight), pod("second", obedient(5), **straight)]
    first, second = await start(bed, *pods)
    assert (cards_of(first), cards_of(second)) == ({0: 20}, {1: 5})
    assert await reach(mounts, "second") == {device(1)}
    await until_booked(extender, mounts, {"first": {0: 20}, "second": {1: 5}})


async def test_a_daemonset_pod_gets_a_gpu_that_the_extender_counts(
    bed: Bed, mounts: GpuNode, extender: ExtenderSpec
) -> None:
    template = pod_for(mounts, "each", obedient(7), labels={"app": "each"})
    wanted = {"selector": {"matchLabels": {"app": "each"}}, "template": template}
    await start(bed, pod_for(mounts, "filler", obedient(20)))
    await bed.api.create(owners("DaemonSet"), {"metadata": {"name": "each"}, "spec": wanted})
    found = await only_pod(bed, "each")
    name = found["metadata"]["name"]
    assert cards_of(found) == {1: 7}
    assert await reach(mounts, name) == {device(1)}
    await until_booked(extender, mounts, {"filler": {0: 20}, name: {1: 7}})


async def test_a_static_pod_gets_a_gpu_that_the_extender_counts(
    bed: Bed, mounts: GpuNode, extender: ExtenderSpec
) -> None:
    await start(bed, pod_for(mounts, "filler", obedient(20)))
    fixed = pod_for(mounts, "fixed", obedient(3))
    file = mounts.kubelet.path(f"{STATIC_PODS}/fixed.json")
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **fixed}))
    try:
        name = f"fixed-{mounts.name}"
        found = await served(bed, name)
        assert cards_of(found) == {1: 3}
        assert await reach(mounts, name) == {device(1)}
        await until_booked(extender, mounts, {"filler": {0: 20}, name: {1: 3}})
    finally:
        file.unlink()


async def test_cdi_gives_a_container_of_plain_runc_its_gpu_only(bed: Bed, cdi: GpuNode) -> None:
    greedy = pod_for(cdi, "greedy", obedient(6, core=5, env=[ALL_CARDS]))
    greedy["metadata"]["annotations"] = {"cdi.k8s.io/mine": f"{contract.CDI_KIND}=all"}
    await start(bed, pod_for(cdi, "filler", obedient(12, core=5)), greedy)
    await bed.create_pods([pod_for(cdi, "idle", idle(env=[ALL_CARDS]))])
    await running(bed, "idle")
    assert await reach(cdi, "filler") == {device(0)}
    assert await reach(cdi, "greedy") == {device(1)}
    assert await reach(cdi, "idle") == set()
    assert (await environment(cdi, "filler"))[contract.ENV_VISIBLE_DEVICES] == "void"


async def test_memory_and_compute_of_one_container_are_of_one_gpu(bed: Bed, cdi: GpuNode) -> None:
    half = obedient(4, core=50)
    pods = [pod_for(cdi, name, half) for name in ("one", "two", "three")]
    for name, found in zip(("one", "two", "three"), await start(bed, *pods), strict=True):
        index = 1 if name == "three" else 0
        assert cards_of(found) == {index: 4}
        written = found["metadata"]["annotations"][contract.ANN_CORE_ALLOCATION]
        assert json.loads(written) == {"0": {str(index): 50}}
        assert await reach(cdi, name) == {device(index)}


async def test_a_pod_that_requests_compute_only_is_rejected_with_the_reason(bed: Bed, cdi: GpuNode) -> None:
    core_only = obedient(0, resources={"limits": {contract.RESOURCE_CORE: "30"}})
    await bed.create_pods([pod("lonely", core_only, nodeName=cdi.name)])
    message = await refused(bed, "lonely")
    assert "pod default/lonely, container main asks for aliyun.com/gpu-core.percentage=30" in message
    assert "without aliyun.com/gpu-mem" in message


async def test_by_environment_and_index_a_container_reaches_its_gpu(bed: Bed, envvar: GpuNode) -> None:
    await start(bed, pod_for(envvar, "filler", obedient(12)), pod_for(envvar, "modest", obedient(4)))
    env = await environment(envvar, "modest")
    assert env[contract.ENV_IDX] == "1"
    assert await reach(envvar, "modest") == {device(1)}


async def test_with_environment_variables_a_pod_that_sets_its_devices_is_rejected(
    bed: Bed, envvar: GpuNode
) -> None:
    await bed.create_pods([pod_for(envvar, "greedy", obedient(4, env=[ALL_CARDS]))])
    message = await refused(bed, "greedy")
    assert "pod default/greedy, container main sets NVIDIA_VISIBLE_DEVICES itself" in message
    assert "--device-list-strategy=volume-mounts" in message


async def test_a_node_without_isolation_sets_the_variable_in_its_containers(
    bed: Bed, envvar: GpuNode
) -> None:
    await start(bed, pod_for(envvar, "free", obedient(4)))
    assert (await environment(envvar, "free"))[contract.ENV_NO_ISOLATION] == "true"
