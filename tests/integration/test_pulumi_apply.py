"""Server-side apply of today's Kubernetes provider, WITH A STAND-IN for that provider.

The engine, the language host, the program and the API server are real; the provider is
``tests.support.fakes.apply_provider``, which says why.
"""

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from components.manifests import everything
from components.stack import from_file, load
from testbed import Bed, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons import console_script
from testbed.pulumi import PulumiError, PulumiStack
from tests.support.builders.stacks import ROOT, STACKS
from tests.support.fakes.apply_provider import program
from tests.support.fixtures.clusters import CONTROL_PLANE, names_of, uids_by_name, unlike

EXAMPLE: dict[str, Any] = from_file(STACKS["node-port"])
# Adoption needs a decision; the schedulers of an Aliyun installation know no TLS.
CONFIG = {**EXAMPLE, "extender": {**EXAMPLE["extender"], "tls": "none"}}
RENDERED = everything(load(CONFIG))
S3 = [ROOT / "examples" / "original" / f"{name}.yaml" for name in ("extender", "device-plugin")]
SERVICE = "Service/kube-system/gpushare-schd-extender"
MASTER = {"node-role.kubernetes.io/master": ""}

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


@dataclass
class TakenOver:
    """A cluster with the installation of the ACK documentation, a pod, and the stack that has adopted it."""

    stack: PulumiStack
    before: dict[str, str]
    pod: Object
    refusal: str

    @property
    def bed(self) -> Bed:
        return self.stack.bed


async def running(bed: Bed, path: str) -> Object:
    async def runs() -> Object | None:
        pod = await bed.api.get(path)
        return pod if pod["status"].get("phase") == "Running" else None

    found = await until(runs, f"{path} to run")
    assert found
    return found


POD = "/api/v1/namespaces/default/pods/works"
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/gpushare-schd-extender"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program(tmp_path_factory.mktemp("provider"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def taken(provider: Path) -> AsyncIterator[TakenOver]:
    async with Testbed() as bed:
        masters = [replace(node, labels={**node.labels, **MASTER}) for node in CONTROL_PLANE]
        await bed.add_nodes([*masters, SimNode("gpu", [SimGpu(), SimGpu()])])
        await bed.apply("---\n".join(file.read_text() for file in S3))
        await bed.create_pods([gpu_pod("works", 4)])
        pod = await running(bed, POD)
        before = await uids_by_name(bed)
        stack = await PulumiStack.create(bed, CONFIG, provider=provider)
        with pytest.raises(PulumiError) as caught:
            await stack.up()
        stack.configure({**CONFIG, "adopt": True})
        await stack.up()
        yield TakenOver(stack, before, pod, caught.value.outcome.text)


async def pod_specs(bed: Bed) -> dict[str, Object]:
    """Of the workloads in kube-system, by name."""
    listed = await bed.kubectl("get", "deployments,daemonsets", "-n=kube-system", "--output=json")
    items = json.loads(listed)["items"]
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in items}


async def test_existing_objects_are_not_adopted_by_default(taken: TakenOver) -> None:
    # The engine stops at the first conflicts.
    assert re.search(
        r"error: (kube-system/)?gpushare-(schd-extender|device-plugin)\S* already exists", taken.refusal
    )


async def test_an_installation_of_s3_is_adopted_object_by_object(taken: TakenOver) -> None:
    after = await uids_by_name(taken.bed)
    assert taken.before.items() <= after.items()
    assert after.keys() == taken.before.keys() | names_of(RENDERED)
    assert await unlike(taken.bed, RENDERED) == []


async def test_the_images_of_the_aliyun_pair_are_replaced_and_running_pods_kept(taken: TakenOver) -> None:
    found = {name: spec["containers"][0]["image"] for name, spec in (await pod_specs(taken.bed)).items()}
    assert found["gpushare-schd-extender"] == CONFIG["extender"]["image"]
    assert found["gpushare-device-plugin-ds"] == CONFIG["devicePlugins"][0]["image"]
    assert (await running(taken.bed, POD))["metadata"]["uid"] == taken.pod["metadata"]["uid"]


async def test_fields_that_only_the_old_files_set_stay(taken: TakenOver) -> None:
    specs = await pod_specs(taken.bed)
    assert specs["gpushare-schd-extender"]["nodeSelector"] == MASTER
    agent = specs["gpushare-device-plugin-ds"]
    assert "KUBECONFIG" in [each["name"] for each in agent["containers"][0]["env"]]
    assert {"kubeconfig", "time-zone"} <= {each["name"] for each in agent["volumes"]}


async def test_adopted_objects_outlive_the_stack(taken: TakenOver) -> None:
    before = await uids_by_name(taken.bed)
    await taken.stack.destroy()
    assert await uids_by_name(taken.bed) == before
    assert (await running(taken.bed, POD))["metadata"]["uid"] == taken.pod["metadata"]["uid"]
    await taken.stack.up()
    assert await uids_by_name(taken.bed) == before


async def test_the_next_update_changes_nothing_with_or_without_adoption(taken: TakenOver) -> None:
    assert (await taken.stack.up("--refresh")).changes == {}
    taken.stack.configure(CONFIG)
    assert (await taken.stack.up("--refresh")).changes == {}
    assert taken.before.items() <= (await uids_by_name(taken.bed)).items()


async def test_an_edited_service_is_found_by_refresh_and_restored_by_up(taken: TakenOver) -> None:
    bed, stack = taken.bed, taken.stack
    edit = '{"spec": {"selector": {"component": "something-else"}}}'
    await bed.kubectl("patch", "service", "gpushare-schd-extender", "-n=kube-system", f"--patch={edit}")
    found = await stack.refresh()
    assert found.changes == {SERVICE: "update"}
    assert (await stack.up()).changes == {SERVICE: "update"}
    service = await bed.api.get("/api/v1/namespaces/kube-system/services/gpushare-schd-extender")
    assert service["spec"]["selector"] == {"app": "gpushare", "component": "gpushare-schd-extender"}
    assert (await stack.up("--refresh")).changes == {}


async def test_an_up_that_may_adopt_objects_completes_one_that_was_killed(taken: TakenOver) -> None:
    bed, stack = taken.bed, taken.stack
    await stack.destroy()
    process = await stack.start("up")

    # Roles are created before the pods that use them.
    await until(lambda: bed.api.get(ACCOUNT), "the first objects", 120, 0.02, 0.02)
    await stack.kill(process)
    assert names_of(RENDERED) - (await uids_by_name(bed)).keys()
    await stack.cancel()
    stack.env["PULUMI_K8S_UPSERT_EXISTING_OBJECTS"] = "true"
    await stack.up("--refresh")
    assert names_of(RENDERED) <= (await uids_by_name(bed)).keys()
    assert await unlike(bed, RENDERED) == []


TENANT = "Namespace/team-a"
SEAL = "/api/v1/namespaces/kube-system/secrets/gpushare-schd-extender-seal"


async def test_a_tenant_that_is_added_again_keeps_its_namespace(taken: TakenOver) -> None:
    bed, stack = taken.bed, taken.stack
    before = await uids_by_name(bed)
    stack.configure({**CONFIG, "tenants": []})
    await stack.up()
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    policies = ("gpushare-tenants", "gpushare-tenants-variables")
    removed = {
        "ResourceQuota/team-a/gpu-mem",
        *(f"{kind}/{policy}" for kind in kinds for policy in policies),
    }
    assert before.keys() - (await uids_by_name(bed)).keys() == removed
    stack.configure(CONFIG)
    await stack.up()
    after = await uids_by_name(bed)
    assert (after.keys(), after[TENANT]) == (before.keys(), before[TENANT])


def secured(level: str) -> dict[str, Any]:
    """The stack with this level of Pod Security for its tenants."""
    return {**CONFIG, "tenants": [{**each, "podSecurity": level} for each in CONFIG["tenants"]]}


async def level_of(bed: Bed) -> str:
    labels: dict[str, str] = (await bed.api.get("/api/v1/namespaces/team-a"))["metadata"]["labels"]
    return labels["pod-security.kubernetes.io/enforce"]


async def test_a_tenant_that_is_added_again_can_be_changed_like_before(taken: TakenOver) -> None:
    """With a manager for each resource, the fields would still belong to that of the former resource."""
    bed, stack = taken.bed, taken.stack
    stack.configure(secured("baseline"))
    await stack.up()
    stack.configure({**CONFIG, "tenants": []})
    await stack.up()
    stack.configure(secured("privileged"))
    await stack.up()
    assert await level_of(bed) == "privileged"
    stack.configure(secured("restricted"))
    await stack.up()
    assert await level_of(bed) == "restricted"


async def test_after_the_loss_of_the_state_nothing_is_a_conflict(taken: TakenOver) -> None:
    bed, stack = taken.bed, taken.stack
    state = await stack.export()
    state["deployment"]["resources"] = [
        each for each in state["deployment"]["resources"] if each["type"] == "pulumi:pulumi:Stack"
    ]
    file = stack.folder / "lost.json"
    file.write_text(json.dumps(state))
    await stack.run("stack", "import", "--file", str(file))
    stack.configure({**secured("baseline"), "adopt": True})
    await stack.up()
    assert await level_of(bed) == "baseline"
    stack.configure(CONFIG)
    await stack.up()


async def test_the_key_that_an_extender_has_written_is_not_of_the_stack(taken: TakenOver) -> None:
    bed, stack = taken.bed, taken.stack
    written = {"data": {"key": "c2VjcmV0"}, "immutable": True}
    folder, _, name = SEAL.rpartition("/")
    await bed.api.create(folder, {"metadata": {"name": name}, **written})
    assert (await stack.up("--refresh")).changes == {}
    await stack.destroy()
    await stack.up()
    found = await bed.api.get(SEAL)
    assert {each: found[each] for each in written} == written
    assert "c2VjcmV0" not in json.dumps(await stack.export())


async def test_labels_of_nodes_stay_when_the_stack_goes(taken: TakenOver) -> None:
    bed, stack = taken.bed, taken.stack
    await bed.add_nodes([SimNode("bare")])
    pool = {"nodes": ["bare"], "labels": SHARED, "placement": "spread", "taints": [TAINT]}
    stack.configure({**CONFIG, "nodePools": [pool]})
    await stack.up()
    node = await bed.api.get("/api/v1/nodes/bare")
    labels = node["metadata"]["labels"]
    assert labels["gpushare"] == "true"
    assert labels["ack.node.gpu.placement"] == "spread"
    assert node["spec"]["taints"] == [OURS]
    await stack.destroy()
    assert names_of(RENDERED) & (await uids_by_name(bed)).keys() == {TENANT, "PriorityClass/team-a"}
    after = await bed.api.get("/api/v1/nodes/bare")
    assert (after["metadata"]["labels"], after["spec"]["taints"]) == (labels, [OURS])
    assert (await running(bed, POD))["metadata"]["uid"] == taken.pod["metadata"]["uid"]


SHARED = {"gpushare": "true"}
TAINT = "example.com/gpu=shared:NoSchedule"
OURS = {"key": "example.com/gpu", "value": "shared", "effect": "NoSchedule"}
THEIRS = {"key": "example.com/leaving", "effect": "NoSchedule"}


async def test_taints_and_labels_of_another_manager_are_a_conflict_and_stay(taken: TakenOver) -> None:
    bed, stack = taken.bed, taken.stack
    await bed.add_nodes([SimNode("tainted", [SimGpu()]), SimNode("switched", [SimGpu()])])
    await bed.kubectl("taint", "node", "tainted", "example.com/leaving:NoSchedule")
    await bed.kubectl("label", "--overwrite", "node", "switched", "gpushare=false")
    for pool, field in (
        ({"nodes": ["tainted"], "taints": [TAINT]}, ".spec.taints"),
        ({"nodes": ["switched"]}, ".metadata.labels.gpushare"),
    ):
        stack.configure({**CONFIG, "nodePools": [{"labels": SHARED, **pool}]})
        with pytest.raises(PulumiError) as caught:
            await stack.up()
        assert re.search(rf"conflict with .*{re.escape(field)}", caught.value.outcome.text)
    assert (await bed.api.get("/api/v1/nodes/tainted"))["spec"]["taints"] == [THEIRS]
    assert (await bed.api.get("/api/v1/nodes/switched"))["metadata"]["labels"]["gpushare"] == "false"
    stack.configure(CONFIG)
    await stack.up("--refresh")


AGENTS = "gpushare-device-plugin-ds"
MPS_NODES = {"ack.node.gpu.schedule": "mps"}
DOWN: dict[str, Any] = {"name": "down", "labels": {"gpushare": "true"}}
"""A node without a kubelet."""


async def rollout(bed: Bed, name: str) -> Object:
    found = await bed.api.get(f"/apis/apps/v1/namespaces/kube-system/daemonsets/{name}")
    status: Object = found["status"]
    return status


async def test_up_waits_for_no_node(taken: TakenOver) -> None:
    """Neither for one that is down, nor for pods of MPS, which an administrator deletes."""
    bed, stack = taken.bed, taken.stack
    await bed.add_nodes([SimNode(f"mps-{index}", [SimGpu()], labels=MPS_NODES) for index in range(3)])
    await bed.api.create("/api/v1/nodes", {"metadata": DOWN})
    (pool,) = CONFIG["devicePlugins"]
    digest = pool["image"]
    stack.configure({**CONFIG, "mps": {"image": digest}})
    await stack.up()
    changed = {"devicePlugins": [{**pool, "memory": "301Mi"}], "mps": {"image": digest, "memory": "3Gi"}}
    stack.configure({**CONFIG, **changed})
    await stack.up()
    agents = await rollout(bed, AGENTS)
    assert agents["desiredNumberScheduled"] > agents.get("numberAvailable", 0)
    daemons = await rollout(bed, "gpushare-mps")
    assert daemons["desiredNumberScheduled"] == 3
    assert not daemons.get("updatedNumberScheduled")


async def test_a_named_pool_takes_over_the_nodes_of_another_one(taken: TakenOver) -> None:
    """Pods of both need the same port of the node, and the engine deletes the former ones last."""
    bed, stack = taken.bed, taken.stack
    digest = CONFIG["devicePlugins"][0]["image"]
    pool = {"name": "mps", "image": digest, "nodeSelector": MPS_NODES}
    stack.configure({**CONFIG, "devicePlugins": [pool], "mps": {"image": digest}})
    await stack.up()

    async def run() -> bool:
        return bool((await rollout(bed, f"{AGENTS}-mps"))["numberReady"] == 3)

    await until(run, "the agents of the pool to run", 60)


async def test_the_mps_daemons_outlive_the_stack_and_return_to_it(taken: TakenOver) -> None:
    bed, stack = taken.bed, taken.stack
    digest = CONFIG["devicePlugins"][0]["image"]
    pool = {"name": "mps", "image": digest, "nodeSelector": MPS_NODES}
    stack.configure({**CONFIG, "devicePlugins": [pool], "mps": {"image": digest}})
    await stack.up()
    before = await uids_by_name(bed)
    await stack.destroy()
    left = (await uids_by_name(bed)).items() & before.items()
    assert "DaemonSet/kube-system/gpushare-mps" in dict(left)
    assert "DaemonSet/kube-system/cgpu-installer" not in dict(left)
    stack.configure({**CONFIG, "devicePlugins": [pool], "mps": {"image": digest, "memory": "3Gi"}})
    await stack.up()
    daemons = "DaemonSet/kube-system/gpushare-mps"
    assert (await uids_by_name(bed))[daemons] == before[daemons]


APIS = "/apis/apiregistration.k8s.io/v1/apiservices"


async def test_an_api_service_of_another_server_is_never_adopted(taken: TakenOver) -> None:
    bed, stack = taken.bed, taken.stack
    served = {"name": "prometheus-adapter", "namespace": "monitoring", "port": 443}
    spec = {
        "group": "custom.metrics.k8s.io",
        "version": "v1beta1",
        "service": served,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
    }
    await bed.api.create(APIS, {"metadata": {"name": "v1beta1.custom.metrics.k8s.io"}, "spec": spec})
    api = {
        "image": CONFIG["extender"]["image"],
        "tlsSecret": "gpushare-metrics-api",
        "caBundle": "-----BEGIN CERTIFICATE-----",
        "customMetrics": True,
    }
    stack.configure({**CONFIG, "adopt": True, "monitoring": {**CONFIG["monitoring"], "metricsApi": api}})
    with pytest.raises(PulumiError) as caught:
        await stack.up()
    assert re.search(r"conflict with .*\.spec\.service\.name", caught.value.outcome.text)
    assert (await bed.api.get(f"{APIS}/v1beta1.custom.metrics.k8s.io"))["spec"]["service"] == served
    listed = {each["metadata"]["name"] for each in await bed.api.items(APIS)}
    assert "v1beta2.custom.metrics.k8s.io" not in listed


ONE_PROVIDER = """
import pulumi
from pulumi_kubernetes import Provider

from components.engine import configuration
from components.resources import GpuShare
from components.stack import load

cluster = Provider("cluster", upsert_existing_objects=True)
GpuShare("gpushare", load(configuration()), pulumi.ResourceOptions(providers=[cluster]))
"""


async def test_a_component_with_one_provider_returns_after_its_end(provider: Path) -> None:
    """As docs/how-to/operate.md shows it; the cluster of this test has no other objects."""
    digest = CONFIG["devicePlugins"][0]["image"]
    async with Testbed() as bed:
        await bed.add_nodes(CONTROL_PLANE)
        stack = await PulumiStack.create(
            bed, {**secured("baseline"), "mps": {"image": digest}}, provider=provider
        )
        (stack.project / "__main__.py").write_text(ONE_PROVIDER)
        await stack.up()
        before = await uids_by_name(bed)
        await stack.destroy()
        left = await uids_by_name(bed)
        retained = {TENANT, "PriorityClass/team-a", "DaemonSet/kube-system/gpushare-mps"}
        assert retained <= left.keys()
        stack.configure({**secured("restricted"), "mps": {"image": digest, "memory": "3Gi"}})
        await stack.up()
        after = await uids_by_name(bed)
        assert after.keys() == before.keys()
        assert {name: after[name] for name in retained} == {name: before[name] for name in retained}
        assert await level_of(bed) == "restricted"


async def ready_nodes(bed: Bed, *flags: str) -> tuple[str, str]:
    """Status and cause of the gate; the other checks know no simulated extender."""
    argv = [console_script("kubectl-gpushare"), "doctor", "-o", "json", "--kubeconfig", str(bed.kubeconfig)]
    done = await asyncio.to_thread(
        subprocess.run, [*argv, *flags], capture_output=True, text=True, check=False
    )
    (found,) = [each for each in json.loads(done.stdout)["checks"] if each["name"] == "ready-nodes"]
    return found["status"], found["cause"]


async def test_of_50_nodes_one_that_is_down_stops_neither_up_nor_the_gate(provider: Path) -> None:
    async with Testbed() as bed:
        nodes = [SimNode(f"gpu-{index}", [SimGpu()], labels=DOWN["labels"]) for index in range(49)]
        await bed.add_nodes([*CONTROL_PLANE, *nodes])
        await bed.api.create("/api/v1/nodes", {"metadata": DOWN})
        stack = await PulumiStack.create(bed, CONFIG, provider=provider)
        await stack.up()
        allowed = await ready_nodes(bed, "--max-unready=10%", "--wait=2m")
        assert allowed == ("ok", "1 of 50 nodes not ready, not more than 10%: down (not ready)")
        refused = await ready_nodes(bed, "--max-unready=0")
        assert refused == ("failed", "1 of 50 nodes not ready, more than 0: down (not ready)")
