"""A driver that is unloaded, or replaced by another version, while the agent runs; on a real kubelet."""

import pytest

from testbed import until
from testbed.daemons.agent import GpuNode
from tests.support.fixtures.gpu_nodes import (
    T4,
    GpuBed,
    container,
    metric,
    pod,
    start_pods,
    unready,
    until_allocatable,
    until_registered,
    until_unhealthy,
)
from tests.support.recount import cards_of, live, until_agreed

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="package")]

NEXT_DRIVER = "580.95.05"


async def test_an_agent_waits_for_a_driver_that_is_absent_for_a_while(gpus: GpuBed, node: GpuNode) -> None:
    await start_pods(gpus.bed, pod("stays", container(4)))
    before, pid = live(node), node.agent.pid
    node.stub.unload_driver()
    await until_unhealthy(node, "0,1")
    await until_allocatable(node, 0)
    assert "driver is not loaded" in (await unready(node)).lower()
    assert await metric(node, "gpushare_device_plugin_nvml_up") == 0
    node.stub.load_driver()
    await until_unhealthy(node, "")
    await until_allocatable(node, 2 * T4)
    assert await unready(node) == ""
    assert await metric(node, "gpushare_device_plugin_nvml_up") == 1
    assert (node.agent.running, node.agent.pid, live(node)) == (True, pid, before)


async def test_an_agent_ends_when_the_driver_was_replaced_and_its_successor_works(
    gpus: GpuBed, node: GpuNode
) -> None:
    bed = gpus.bed
    await start_pods(bed, pod("older", container(4)))
    before = live(node)
    node.stub.load_driver(NEXT_DRIVER)
    assert await node.agent.wait(60) == 1
    log = node.agent.command.log.read_text()
    assert '"driver_replaced"' in log
    assert "gpushare device-plugin: the NVIDIA kernel driver was replaced" in log
    # As the kubelet does after the container has ended.
    await node.agent.start()
    await until_registered(node)
    await until_unhealthy(node, "")
    await until_allocatable(node, 2 * T4)
    assert live(node) == before
    await start_pods(bed, pod("younger", container(11)))
    assert cards_of(node) == {"older": 0, "younger": 1}
    await until_agreed(node, gpus.extender)


async def test_an_agent_that_starts_without_a_driver_waits_for_it(gpus: GpuBed, node: GpuNode) -> None:
    await node.agent.stop()
    node.stub.unload_driver()
    await node.agent.start()
    await until(lambda: is_unready(node, "driver is not loaded"), "the agent to wait for the driver")
    node.stub.load_driver()
    await until_registered(node)
    await until_unhealthy(node, "")
    await until_allocatable(node, 2 * T4)
    await until_agreed(node, gpus.extender)


async def test_an_agent_that_starts_without_a_gpu_to_share_waits_for_one(node: GpuNode) -> None:
    await node.agent.stop()
    for index in (0, 1):
        node.stub.set(index, mig=1)
    await node.agent.start()
    await until(lambda: is_unready(node, "no GPU of this machine can be shared"), "the agent to wait")
    for index in (0, 1):
        node.stub.set(index, mig=None)
    await until_registered(node)
    await until_allocatable(node, 2 * T4)


async def is_unready(node: GpuNode, reason: str) -> bool:
    return reason in await unready(node)


async def test_no_allocation_is_lost_when_the_driver_is_replaced_during_one(
    gpus: GpuBed, node: GpuNode
) -> None:
    """The agent ends between Allocate calls; the pods that come meanwhile fail or run, never both."""
    bed = gpus.bed
    names = [f"in-between-{number}" for number in range(6)]
    node.stub.load_driver("580.105.08")
    await bed.create_pods([pod(name, container(2)) for name in names])
    assert await node.agent.wait(60) == 1
    await node.agent.start()
    await until_registered(node)
    await until_unhealthy(node, "")

    async def settled() -> bool:
        pods = await bed.api.items("/api/v1/namespaces/default/pods")
        return all(each["status"]["phase"] in {"Running", "Failed"} for each in pods)

    await until(settled, "the pods to run or to fail")
    await until_agreed(node, gpus.extender)
