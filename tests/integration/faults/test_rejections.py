"""Pods that a node rejects again and again: their controllers must not fail them by the hundred.

The containers set NVIDIA_VISIBLE_DEVICES, and the agent names GPUs by that variable: it rejects each of them.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gpushare import contract
from testbed import Bed, until
from testbed.control_plane.api import Object
from testbed.daemons.agent import GpuNode, add_gpu_node
from testbed.kubelets import KubeletSpec
from testbed.nvml import card
from tests.support.faults import FaultRow, fault
from tests.support.fixtures.extenders import QUICK
from tests.support.fixtures.fault_arena import FLAGS
from tests.support.fixtures.gpu_nodes import (
    PODS,
    SHARING,
    T4,
    GpuBed,
    clear,
    container,
    gpu_bed,
    owner,
    owners,
    pod,
    start_pods,
    until_allocatable,
)
from tests.support.recount import disagreements, never_overcommitted, until_agreed

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

NODE = "strict"
MOST = 10
"""Failed pods of a workload that are tolerated. Before, there were some hundred a minute."""
REJECTED = container(4, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpus() -> AsyncIterator[GpuBed]:
    async with gpu_bed(flags=(*QUICK, *FLAGS)) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(gpus: GpuBed) -> GpuNode:
    spec = KubeletSpec(NODE, labels=SHARING, config={"nodeStatusUpdateFrequency": "1s"})
    found = await add_gpu_node(gpus.bed, spec, [card("T4")], flags=["--device-list-strategy=envvar"])
    await until_allocatable(found, T4)
    return found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(gpus: GpuBed, node: GpuNode) -> AsyncIterator[None]:
    yield
    await clear(gpus.bed, node)


async def pods_of(bed: Bed, app: str) -> list[Object]:
    return await bed.api.items(PODS, labelSelector=f"app={app}")


def waits_for_the_node(found: Object) -> bool:
    """Whether kube-scheduler has left the pod pending because of earlier rejections."""
    conditions = found["status"].get("conditions", ())
    return any(contract.REASON_REJECTED in each.get("message", "") for each in conditions)


def does_not_start(found: Object) -> bool:
    """Whether the kubelet has admitted the pod, and the runtime refuses its container."""
    states = [each["state"].get("waiting", {}) for each in found["status"].get("containerStatuses", ())]
    return any("/dev/gpushare-rejected-own_devices" in each.get("message", "") for each in states)


async def rejections(bed: Bed, app: str) -> list[Object]:
    """The events of the agent about rejected pods."""
    events = await bed.api.items("/api/v1/namespaces/default/events")
    return [
        each
        for each in events
        if each["reason"] == contract.EVENT_REFUSED
        and each["involvedObject"]["name"].startswith(app)
        and each["message"].startswith(f"pod default/{app}")
    ]


async def until_rejected(bed: Bed, app: str, times: int) -> None:
    """Wait for so many events; the agent writes them a moment later, and a busy extender lets more pass."""

    async def reported() -> bool:
        return len(await rejections(bed, app)) >= times

    await until(reported, f"{times} events about rejected pods of {app}")
    assert len(await rejections(bed, app)) <= MOST


async def settles(row: FaultRow, node: GpuNode, app: str, since: float, *, admitted: bool) -> None:
    """One pod is left that is not replaced, and few were rejected."""

    async def one_is_left() -> bool:
        left = [each for each in await pods_of(node.bed, app) if each["status"].get("phase") == "Pending"]
        return any(does_not_start(each) if admitted else waits_for_the_node(each) for each in left)

    await row.recovers(one_is_left, "a pod that is not replaced", since=since, within_s=60)
    assert len(await rejections(node.bed, app)) <= MOST
    phases = Counter(each["status"].get("phase") for each in await pods_of(node.bed, app))
    assert phases["Failed"] <= MOST
    assert phases["Pending"] == 1


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            "Deployment",
            marks=fault("rejects the pods of a Deployment, bound by the extender", component="node agent"),
        ),
        pytest.param(
            "StatefulSet",
            marks=fault("rejects the pods of a StatefulSet, bound by the extender", component="node agent"),
        ),
    ],
)
async def test_the_extender_keeps_a_workload_from_a_node_that_rejected_it(
    gpus: GpuBed, node: GpuNode, fault_row: FaultRow, kind: str
) -> None:
    bed = gpus.bed
    async with never_overcommitted(node, T4):
        app = f"of-a-{kind.lower()}"
        await bed.api.request("POST", owners(kind), owner(kind, app, 1, REJECTED))
        await settles(fault_row, node, app, time.monotonic(), admitted=False)
        # Others get the node meanwhile.
        await start_pods(bed, pod("other", container(4)))
        # The cause of the first rejection may be over in a moment.
        await until_rejected(bed, app, 2)
    await until_agreed(node, gpus.extender, 60)
    fault_row.proved(over_commits=0, lost=len(await disagreements(node, gpus.extender)))


@fault("rejects the pods of a Deployment with nodeName, which no scheduler bound", component="node agent")
async def test_a_workload_that_names_its_node_ends_with_a_pod_that_does_not_start(
    gpus: GpuBed, node: GpuNode, fault_row: FaultRow
) -> None:
    bed = gpus.bed
    async with never_overcommitted(node, T4):
        await start_pods(bed, pod("other", container(4)))
        template = owner("Deployment", "web", 1, REJECTED, nodeName=NODE)
        await bed.api.request("POST", owners("Deployment"), template)
        await settles(fault_row, node, "web", time.monotonic(), admitted=True)
        await until_rejected(bed, "web", 6)
    # The rejected pods have no GPU; the one that does not start counts until it is deleted.
    await bed.api.request("DELETE", f"{owners('Deployment')}/web")
    await until_agreed(node, gpus.extender, 60)
    fault_row.proved(over_commits=0, lost=len(await disagreements(node, gpus.extender)))
