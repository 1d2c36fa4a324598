"""Faults of the node agent, and of what it reads, while containers run; on a real kubelet."""

import time
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from testbed import until
from testbed.daemons.agent import NAME, GpuNode, add_gpu_node
from testbed.kubelets import KubeletSpec
from testbed.nvml import card
from tests.support.faults import FaultRow, fault
from tests.support.fixtures.agents import start_kubelet
from tests.support.fixtures.etcd_backups import back_up, lost_changes, restore
from tests.support.fixtures.extenders import QUICK, until_leads
from tests.support.fixtures.fault_arena import FLAGS, kept_running
from tests.support.fixtures.gpu_nodes import (
    PODS,
    SHARING,
    T4,
    GpuBed,
    bound,
    clear,
    container,
    gpu_bed,
    metric,
    pod,
    running,
    start_pods,
    until_allocatable,
    until_event,
    until_registered,
)
from tests.support.recount import (
    by_name,
    cards_of,
    disagreements,
    never_overcommitted,
    two_pods,
    until_agreed,
)

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

NODE = "faulty"
FIRST_ALLOCATE = "first Allocate"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpus() -> AsyncIterator[GpuBed]:
    async with gpu_bed(flags=(*QUICK, *FLAGS)) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(gpus: GpuBed) -> GpuNode:
    """Two T4 of 14 units; a kubelet that writes its status every second."""
    spec = KubeletSpec(NODE, labels=SHARING, config={"nodeStatusUpdateFrequency": "1s"})
    found = await add_gpu_node(gpus.bed, spec, 2 * [card("T4")])
    await until_allocatable(found, 2 * T4)
    return found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(gpus: GpuBed, node: GpuNode) -> AsyncIterator[None]:
    yield
    await clear(gpus.bed, node)


async def bind_next(gpus: GpuBed) -> None:
    """Create the pod ``next`` and wait until it is bound, whether or not the agent works."""
    await gpus.bed.create_pods([pod("next", container(4))])
    await bound(gpus.bed, "next")


async def until_runs(row: FaultRow, node: GpuNode, name: str, *, since: float) -> None:
    """Wait until the pod runs with a GPU, and note the time as the recovery."""

    async def runs() -> bool:
        return name in cards_of(node)

    await row.recovers(runs, FIRST_ALLOCATE, since=since, within_s=90)


async def proved(row: FaultRow, gpus: GpuBed, node: GpuNode) -> None:
    """The agent's record, the annotations and the ledger have exactly the units of the containers."""
    await until_agreed(node, gpus.extender, 60)
    row.proved(over_commits=0, lost=len(await disagreements(node, gpus.extender)))


@fault("killed (SIGKILL), and a pod is bound before it starts again", component="node agent")
async def test_an_agent_that_is_killed_serves_the_same_gpus_when_it_starts_again(
    gpus: GpuBed, node: GpuNode, fault_row: FaultRow
) -> None:
    before = await two_pods(gpus, node)
    async with never_overcommitted(node, T4):
        await node.kubelet.kill(NAME)
        await bind_next(gpus)
        await node.kubelet.start(NAME)
        started = time.monotonic()
        await until_registered(node)
        await gpus.bed.create_pods([pod("after", container(4))])
        await until_runs(fault_row, node, "after", since=started)
    assert [each for each in by_name(node) if each.pod in {one.pod for one in before}] == before
    await gpus.bed.api.delete(f"{PODS}/next")
    await proved(fault_row, gpus, node)


@fault("frozen (SIGSTOP) while the kubelet calls Allocate", component="node agent")
async def test_a_frozen_agent_answers_when_it_continues(
    gpus: GpuBed, node: GpuNode, fault_row: FaultRow
) -> None:
    before = await two_pods(gpus, node)
    async with never_overcommitted(node, T4):
        await node.kubelet.pause(NAME)
        await bind_next(gpus)
        await node.kubelet.resume(NAME)
        await until_runs(fault_row, node, "next", since=time.monotonic())
    await running(gpus.bed, "next")
    assert [each for each in by_name(node) if not each.pod.endswith("/next")] == before
    await proved(fault_row, gpus, node)


@fault("removed from its node while pods run, and pods are created meanwhile", component="node agent")
async def test_a_node_without_an_agent_takes_no_pods_until_it_is_back(
    gpus: GpuBed, node: GpuNode, fault_row: FaultRow
) -> None:
    before = await two_pods(gpus, node)
    async with never_overcommitted(node, T4):
        await node.kubelet.stop(NAME)
        await until_allocatable(node, 0, 60)
        await gpus.bed.create_pods([pod("next", container(4))])
        reason = "its kubelet offers no aliyun.com/gpu-mem"
        await until_event(gpus.bed, "next", lambda text: reason in text, timeout_s=60)
        await node.kubelet.start(NAME)
        started = time.monotonic()
        await until_runs(fault_row, node, "next", since=started)
    assert [each for each in by_name(node) if not each.pod.endswith("/next")] == before
    await proved(fault_row, gpus, node)


@fault("deleted and created again while its pods run", component="Node object, with a kubelet")
async def test_the_allocations_of_a_node_that_is_created_again_are_published_again(
    gpus: GpuBed, node: GpuNode, fault_row: FaultRow
) -> None:
    before = await two_pods(gpus, node)
    async with never_overcommitted(node, T4):
        await gpus.bed.delete_node(NODE)
        await gpus.bed.api.create("/api/v1/nodes", {"metadata": {"name": NODE, "labels": SHARING}})
        created = time.monotonic()
        await gpus.bed.create_pods([pod("next", container(4))])
        await until_runs(fault_row, node, "next", since=created)
    assert [each for each in by_name(node) if not each.pod.endswith("/next")] == before
    await proved(fault_row, gpus, node)


async def watches_its_node(node: GpuNode) -> bool:
    stale_s = await metric(node, "gpushare_device_plugin_watch_stale_seconds", resource="nodes")
    return stale_s == 0


@fault("restored from an older backup of etcd", component="API server, with a kubelet")
async def test_after_a_restore_the_agent_has_the_pods_of_the_backup_and_no_others(
    gpus: GpuBed, node: GpuNode, fault_row: FaultRow
) -> None:
    bed, before = gpus.bed, await two_pods(gpus, node)
    backup = await back_up(bed)
    await until_leads(gpus.extender)
    await lost_changes(bed)
    # Its allocation is in an annotation of the node: the agent then knows a version after those changes.
    await until(partial(watches_its_node, node), "the agent to watch its node again", 60)
    await start_pods(bed, pod("later", container(4)))
    await until_agreed(node, gpus.extender)
    agent = node.agent.pid
    async with (
        never_overcommitted(node, T4),
        kept_running([node.agent, bed.process(gpus.extender.name)]),
    ):
        await restore(bed, backup)
        restored = time.monotonic()

        async def started_again() -> bool:
            return node.agent.running and node.agent.pid != agent

        await until(started_again, "the agent to start again", 60)
        await until_registered(node)
        await node.kubelet.stop("kubelet")
        await start_kubelet(node)
        await bed.create_pods([pod("next", container(4))])
        await until_runs(fault_row, node, "next", since=restored)
    await proved(fault_row, gpus, node)
    assert {each.pod: each.index for each in by_name(node)}.items() >= {(e.pod, e.index) for e in before}
    assert "it was restored from a backup" in node.agent.command.log.read_text()
    assert "default/later" not in {each.pod for each in by_name(node)}
