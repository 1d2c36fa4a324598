"""GPUs that fail while pods run; on a real kubelet."""

import json
from collections.abc import Callable

import pytest

from gpushare import contract
from testbed import until
from testbed.control_plane.api import read_text
from testbed.daemons.agent import GpuNode
from tests.fixtures.gpu_nodes import (
    T4,
    GpuBed,
    container,
    metric,
    pod,
    remove,
    running,
    until_allocatable,
    until_event,
    until_published,
    until_unhealthy,
)
from tests.support.recount import cards_of, live, one_pod, until_agreed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.needs("kubelet"),
    pytest.mark.asyncio(loop_scope="package"),
]


async def filtered(gpus: GpuBed, units: int) -> dict[str, str]:
    """The reasons of the extender against a pod of that size, by node."""
    asking = pod("asking", container(units))
    asking["metadata"] |= {"namespace": "default", "uid": "00000000-0000-0000-0000-000000000000"}
    text = json.dumps({"Pod": asking, "NodeNames": ["faulty"]})
    answer = json.loads(await read_text(f"{gpus.extender.url}/filter", post=text))
    return {**(answer.get("FailedNodes") or {}), **(answer.get("FailedAndUnresolvableNodes") or {})}


def says_xid(number: int) -> Callable[[str], bool]:
    return lambda text: f"XID {number}" in text


async def test_an_xid_makes_its_gpu_unschedulable_and_affects_no_running_pod(
    gpus: GpuBed, node: GpuNode
) -> None:
    bed, before = gpus.bed, await one_pod(gpus, node)
    assert [each.index for each in before] == [0]
    node.stub.xid(0, 79)
    await until_unhealthy(node, "0")
    await until_allocatable(node, T4)
    await until_published(node, (T4, False), (T4, True))
    await until_event(bed, "faulty", says_xid(79), contract.EVENT_CARD_UNHEALTHY)
    uuid = node.stub.uuid(0)
    assert await metric(node, "gpushare_device_plugin_xid_errors_total", uuid=uuid, xid="79") == 1
    assert await metric(node, "gpushare_device_plugin_cards", state="unhealthy") == 1
    await bed.create_pods([pod("beside", container(6))])
    await running(bed, "beside")
    assert cards_of(node) == {"on-card-0": 0, "beside": 1}
    await bed.create_pods([pod("fits-nowhere", container(10))])
    open_gpu = "at most 8 of 14 free on GPU 1 (unschedulable: GPU 0)"
    await until_event(bed, "fits-nowhere", lambda text: open_gpu in text, contract.EVENT_REFUSED)
    await remove(bed, "fits-nowhere")
    assert [each for each in live(node) if each.pod == "default/on-card-0"] == before
    # After a reset of the GPU, the administrator restarts the agent.
    await node.agent.restart()
    await until_unhealthy(node, "")
    await until_allocatable(node, 2 * T4)

    async def fits() -> bool:
        return "faulty" not in await filtered(gpus, 10)

    await until(fits, "the extender to see the GPU as healthy")
    await until_agreed(node, gpus.extender)


async def test_a_gpu_recovers_from_an_error_that_needs_no_reset(gpus: GpuBed, node: GpuNode) -> None:
    node.stub.xid(1, 94)
    await until_unhealthy(node, "1")
    await until_unhealthy(node, "")
    await until_allocatable(node, 2 * T4)
    await until_event(gpus.bed, "faulty", says_xid(94), contract.EVENT_CARD_RECOVERED)
