"""Every switch of a node between sharing and whole GPUs, by its labels, while pods of the old kind run.

The DaemonSets of the stack are deployed from images on a real kubelet, as users do it. NVIDIA's plugin is a
stand-in in a static pod, as on ACK, and the GPU a stub.
"""

import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

import release
from gpushare import contract
from testbed import SchedulerSpec, Testbed, until
from testbed.control_plane.aggregation import TO_PODS
from testbed.control_plane.api import Object
from testbed.cuda import CudaCard, CudaStub
from testbed.cuda.reporting import reporting
from testbed.daemons.whole_gpu_plugin import static_pod
from testbed.kubelets import KubeletSpec, add_kubelet
from testbed.kubelets.services import load
from testbed.nvml import NvmlStub, card, cdi
from testbed.stories import deployed
from testbed.stories.deployed import DeployedNode
from testbed.stories.play import show
from tests.support.faults import FaultRow, fault
from tests.support.fixtures.gpu_nodes import (
    PODS,
    container,
    node_object,
    owner,
    owners,
    pod,
    remove,
    replicas_run,
    running,
    start_pods,
    until_event,
)
from tests.support.history import Entry, Recorder

pytestmark = [
    pytest.mark.needs("images", "kubelet"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

NAME = "ack"
ORDERED = {"podManagementPolicy": "OrderedReady"}
MANIFESTS = "/etc/kubernetes/manifests"
T4 = 14
SYSTEM_PODS = "/api/v1/namespaces/kube-system/pods"
BOTH = {contract.RESOURCE_MEM, contract.RESOURCE_WHOLE_GPU}
SHARES = {contract.LABEL_CGPU: "true"}
OFF: dict[str, dict[str, str | None]] = {
    "cgpu=false": {contract.LABEL_CGPU: "false"},
    "cgpu removed": {contract.LABEL_CGPU: None},
    "ack.node.gpu.schedule=default": {contract.LABEL_MODE: "default"},
    "gpushare=false": {contract.LABEL_GPUSHARE: "false"},
}
"""The labels with which a node with ``cgpu=true`` shares no longer."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node() -> AsyncIterator[DeployedNode]:
    """A node of one T4 that shares nothing yet, in a cluster with the stack for ``cgpu=true``."""
    images = await release.ensure()
    async with (
        Testbed(kwok=False, scheduler=SchedulerSpec(version=None), api_flags=TO_PODS) as bed,
        AsyncExitStack() as stack,
    ):
        control_plane = await deployed.add_control_plane_node(bed, images)
        stub = NvmlStub(bed.folder / f"nvml-{NAME}", cards=[card("T4")])
        cuda = CudaStub(bed.folder / f"cuda-{NAME}", cards=[CudaCard(stub.uuid(0), 15_360, 121, "Tesla T4")])
        spec = KubeletSpec(
            NAME,
            labels={contract.LABEL_NO_ISOLATION: "true"},
            runtime="nvidia",
            services=True,
            files={cdi.FILE: cdi.specification(stub, cuda), f"{MANIFESTS}/.folder": ""},
            config={
                "staticPodPath": MANIFESTS,
                "fileCheckFrequency": "1s",
                "nodeStatusUpdateFrequency": "1s",
            },
        )
        kubelet = await add_kubelet(bed, spec)
        await load(kubelet, images)
        found = DeployedNode(bed, kubelet, stub, cuda)
        manifest = kubelet.path(f"{MANIFESTS}/{contract.NVIDIA_PLUGIN_MANIFEST}")
        manifest.write_text(json.dumps(static_pod(found)))
        await until_offers(found, whole=1)
        await bed.restart_scheduler(SchedulerSpec())
        configuration = deployed.configuration(images, SHARES)
        configuration["devicePlugins"][0]["evictRecover"] = True  # type: ignore[index]
        await deployed.by_kubectl(bed, configuration)
        await bed.restart_scheduler(await deployed.secure_scheduler_for(bed, control_plane))
        await stack.enter_async_context(reporting(cuda, stub))
        yield found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(node: DeployedNode) -> AsyncIterator[None]:
    """Each test starts with a node of whole GPUs without pods."""
    yield
    for found in await node.bed.api.items(PODS):
        await remove(node.bed, found["metadata"]["name"])
    await label(node, {key: None for labels in OFF.values() for key in labels})
    await until_offers(node, whole=1, units=0)


async def label(node: DeployedNode, labels: dict[str, str | None]) -> None:
    await node.bed.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": labels}})


async def offers(node: DeployedNode) -> tuple[int, int]:
    """Whole GPUs and units that the node offers."""
    allocatable = (await node_object(node))["status"]["allocatable"]
    whole = allocatable.get(contract.RESOURCE_WHOLE_GPU, 0)
    return int(whole), int(allocatable.get(contract.RESOURCE_MEM, 0))


async def until_offers(node: DeployedNode, *, whole: int, units: int = 0) -> None:
    async def offered() -> bool:
        return await offers(node) == (whole, units)

    await until(offered, f"{whole} whole GPUs and {units} units", 120, 0.5)


async def until_switched_on(node: DeployedNode) -> None:
    await label(node, dict(SHARES))
    await until_offers(node, whole=0, units=T4)


async def recovers(node: DeployedNode) -> str:
    """The log of the pod of ``device-plugin-recover-ds`` on the node; empty before it runs."""
    for found in await node.bed.api.items(SYSTEM_PODS, labelSelector="component=device-plugin-recover-ds"):
        if found["status"].get("phase") == "Running" and "deletionTimestamp" not in found["metadata"]:
            name = found["metadata"]["name"]
            return await node.bed.kubectl("-n", "kube-system", "logs", name)
    return ""


async def until_waits_for(node: DeployedNode, *pods: str) -> None:
    named = ", ".join(f"default/{each}" for each in pods)

    async def waits() -> bool:
        return f"waiting: pods still use units of {contract.RESOURCE_MEM} here: {named}" in await recovers(
            node
        )

    await until(waits, f"the plugin to wait for {named}", 120, 0.5)


async def phase(node: DeployedNode, name: str) -> str:
    found = await node.bed.api.get(f"{PODS}/{name}")
    return str(found["status"]["phase"])


def whole() -> Object:
    return container(0, resources={"limits": {contract.RESOURCE_WHOLE_GPU: "1"}})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("cgpu=false", marks=fault("cgpu=false while pods with units run", component="node")),
        pytest.param("cgpu removed", marks=fault("cgpu removed while pods with units run", component="node")),
        pytest.param(
            "ack.node.gpu.schedule=default",
            marks=fault("ack.node.gpu.schedule=default while pods with units run", component="node"),
        ),
        pytest.param(
            "gpushare=false", marks=fault("gpushare=false while pods with units run", component="node")
        ),
    ],
)
async def test_a_node_that_shares_no_longer_gives_whole_gpus_back_once_its_pods_are_gone(
    node: DeployedNode, change: str, fault_row: FaultRow
) -> None:
    bed = node.bed
    async with Recorder(bed.api, path=PODS) as recorder:
        await until_switched_on(node)
        await start_pods(bed, pod("a", container(7)), pod("b", container(7)), timeout_s=60)
        await label(node, OFF[change])
        await until_waits_for(node, "a", "b")
        lost = T4 - await assigned_units(node)
        await bed.create_pods([pod("whole", whole()), pod("late", container(1))])
        await remove(bed, "a")
        await until_waits_for(node, "b")
        # One pod of the old kind is left: neither plugin gives its GPU away.
        assert await offers(node) == (0, 0)
        assert [await phase(node, name) for name in ("whole", "late")] == ["Pending", "Pending"]
        await running(bed, "b")
        await remove(bed, "b")
        gone = time.monotonic()
        await fault_row.recovers(
            lambda: runs(node, "whole"), "a pod with the whole GPU", since=gone, within_s=120
        )
        fault_row.proved(shared_twice(await recorder.caught_up()), lost)


async def assigned_units(node: DeployedNode) -> int:
    """The units of all pods in the annotation of the node."""
    text = (await node_object(node))["metadata"]["annotations"][contract.ANN_ASSIGNED_NODE]
    return sum(
        units
        for containers in json.loads(text).values()
        for cards in containers.values()
        for units in cards.values()
    )


async def runs(node: DeployedNode, name: str) -> bool:
    return await phase(node, name) == "Running"


def shared_twice(history: Iterable[Entry]) -> int:
    """The moments at which a pod with the whole GPU ran beside one with units of it."""
    kinds: dict[str, set[str]] = {}
    moments = 0
    for change, found in history:
        uid, limits = (
            found["metadata"]["uid"],
            found["spec"]["containers"][0].get("resources", {}).get("limits", {}),
        )
        kinds.pop(uid, None)
        if change != "DELETED" and found["status"].get("phase") == "Running":
            kinds[uid] = BOTH & {name for name, amount in limits.items() if amount != "0"}
        moments += set().union(*kinds.values()) == BOTH
    return moments


async def test_a_node_that_shares_lets_pods_with_whole_gpus_finish(node: DeployedNode) -> None:
    bed = node.bed
    await start_pods(bed, pod("whole", whole()), timeout_s=60)
    await until_switched_on(node)
    await bed.create_pods([pod("late", container(4))])
    await running(bed, "whole")
    (reported,) = json.loads((await node_object(node))["metadata"]["annotations"][contract.ANN_CARDS])
    assert (reported["healthy"], reported["whole_gpu_pods"]) == (False, ["default/whole"])
    assert await phase(node, "late") == "Pending"
    await remove(bed, "whole")
    await running(bed, "late", 60)


async def test_a_node_that_is_switched_back_in_time_goes_on_sharing(
    node: DeployedNode,
) -> None:
    bed = node.bed
    await until_switched_on(node)
    await start_pods(bed, pod("a", container(7)), timeout_s=60)
    await label(node, OFF["cgpu=false"])
    await until_waits_for(node, "a")
    await until_switched_on(node)
    await start_pods(bed, pod("fits", container(7)), timeout_s=60)
    await running(bed, "a")
    await bed.create_pods([pod("not", container(1))])
    await until_event(bed, "not", lambda text: "Insufficient" in text)


async def test_pods_of_two_sharing_modes_do_not_share_a_gpu(node: DeployedNode) -> None:
    bed = node.bed
    await until_switched_on(node)
    await start_pods(bed, pod("a", container(7)), timeout_s=60)
    await label(node, {contract.LABEL_MODE: "share"})
    await bed.create_pods([pod("b", container(7))])
    await until_event(bed, "b", lambda text: "until pods of mode cgpu are gone" in text)
    await remove(bed, "a")
    await running(bed, "b", 60)
    assert await offers(node) == (0, T4)


async def test_the_update_of_the_ack_documents_says_that_it_waits_for_itself(
    node: DeployedNode,
) -> None:
    """The StatefulSet is edited from a whole GPU to units, with two replicas, on a node with one GPU."""
    bed, app = node.bed, "app-3g-v1"
    before = owner("StatefulSet", app, 1, whole())
    await bed.api.create(owners("StatefulSet"), {**before, "spec": {**before["spec"], **ORDERED}})
    await running(bed, f"{app}-0", 60)
    await until_switched_on(node)
    after = owner("StatefulSet", app, 2, container(4))
    await bed.api.patch(f"{owners('StatefulSet')}/{app}", {"spec": {**after["spec"], **ORDERED}})
    command = f"kubectl delete pod -n default {app}-0"
    text = await until_event(bed, f"{app}-1", lambda text: "waits for itself" in text, timeout_s=60)
    assert f"the rolling update of StatefulSet {app} waits for itself: default/{app}-0 on node" in text
    assert command in text
    assert command in await show(bed, f"kubectl gpushare explain {app}-1")
    await show(bed, command)
    await replicas_run(bed, app, 2, 120)
    await bed.api.delete(f"{owners('StatefulSet')}/{app}")
