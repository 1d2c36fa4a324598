"""GPUs that fail while pods run; on a real kubelet."""

import json
from collections.abc import AsyncIterator, Callable

import pynvml
import pytest
import pytest_asyncio

from gpushare import contract
from gpushare.model.hardware import RecoveryAction
from testbed import until
from testbed.control_plane.api import read_text
from testbed.daemons.agent import GpuNode, add_gpu_node
from testbed.kubelets import KubeletSpec
from testbed.nvml import card
from tests.support.fixtures.gpu_nodes import (
    SHARING,
    T4,
    GpuBed,
    container,
    metric,
    pod,
    remove,
    start_pods,
    until_allocatable,
    until_event,
    until_published,
    until_unhealthy,
)
from tests.support.recount import cards_of, live, one_pod, until_agreed

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="package")]


async def filtered(gpus: GpuBed, units: int) -> dict[str, str]:
    """The reasons of the extender against a pod of that size, by node."""
    asking = pod("asking", container(units))
    asking["metadata"] |= {"namespace": "default", "uid": "00000000-0000-0000-0000-000000000000"}
    text = json.dumps({"Pod": asking, "NodeNames": ["faulty"]})
    answer = json.loads(await read_text(f"{gpus.extender.url}/filter", post=text))
    return {**(answer.get("FailedNodes") or {}), **(answer.get("FailedAndUnresolvableNodes") or {})}


def says(words: str) -> Callable[[str], bool]:
    return lambda text: words in text


def needs_reset(node: GpuNode, index: int) -> None:
    """Let the driver report an uncontained memory error and ask for a reset."""
    node.stub.xid(index, 95)
    node.stub.require(index, RecoveryAction.GPU_RESET)


async def until_registered_with_one_closed(node: GpuNode) -> None:
    """Wait until the agent has registered; its metrics, unlike the annotation, are those of this process."""

    async def closed() -> bool:
        resource = contract.RESOURCE_MEM
        registered = await metric(node, "gpushare_device_plugin_registered", resource=resource) == 1
        return registered and await metric(node, "gpushare_device_plugin_cards", state="unhealthy") == 1

    await until(closed, "the agent to register with one closed GPU")


async def test_a_gpu_that_needs_a_reset_is_unschedulable_until_then_and_affects_no_running_pod(
    gpus: GpuBed, node: GpuNode
) -> None:
    bed, before = gpus.bed, await one_pod(gpus, node)
    assert [each.index for each in before] == [0]
    needs_reset(node, 0)
    await until_unhealthy(node, "0")
    await until_allocatable(node, T4)
    await until_published(node, (T4, False), (T4, True))
    await until_event(bed, "faulty", says("asks for a reset of the GPU"), contract.EVENT_CARD_UNHEALTHY)
    uuid = node.stub.uuid(0)
    assert await metric(node, "gpushare_device_plugin_xid_errors_total", uuid=uuid, xid="95") == 1
    assert await metric(node, "gpushare_device_plugin_cards", state="unhealthy") == 1
    await start_pods(bed, pod("beside", container(6)))
    assert cards_of(node) == {"on-card-0": 0, "beside": 1}
    await bed.create_pods([pod("fits-nowhere", container(10))])
    open_gpu = "at most 8 of 14 free on GPU 1 (unschedulable: GPU 0 is unhealthy: the driver asks for a reset"
    await until_event(bed, "fits-nowhere", lambda text: open_gpu in text, contract.EVENT_REFUSED)
    await remove(bed, "fits-nowhere")
    assert [each for each in live(node) if each.pod == "default/on-card-0"] == before
    # No restart of the agent opens the GPU, and the reset does without one.
    await node.agent.restart()
    await until_registered_with_one_closed(node)
    await until_published(node, (T4, False), (T4, True))
    await until_allocatable(node, T4)
    node.stub.reset(0)
    await until_unhealthy(node, "")
    await until_allocatable(node, 2 * T4)
    await until_event(bed, "faulty", says("asks for a reset of the GPU"), contract.EVENT_CARD_RECOVERED)

    async def fits() -> bool:
        return "faulty" not in await filtered(gpus, 10)

    await until(fits, "the extender to see the GPU as healthy")
    await until_agreed(node, gpus.extender)


async def test_a_contained_error_leaves_its_gpu_schedulable(node: GpuNode) -> None:
    uuid = node.stub.uuid(1)
    node.stub.xid(1, 94)

    async def counted() -> bool:
        return await metric(node, "gpushare_device_plugin_xid_errors_total", uuid=uuid, xid="94") == 1

    await until(counted, "the agent to count the error")
    assert await metric(node, "gpushare_device_plugin_cards", state="unhealthy") == 0
    await until_allocatable(node, 2 * T4)


async def test_a_gpu_that_does_not_answer_recovers_by_itself(gpus: GpuBed, node: GpuNode) -> None:
    node.stub.fail("nvmlDeviceGetTemperature", pynvml.NVML_ERROR_UNKNOWN, card=1)
    await until_unhealthy(node, "1")
    node.stub.heal()
    await until_unhealthy(node, "")
    await until_allocatable(node, 2 * T4)
    words = says("nvmlDeviceGetTemperature: Unknown Error")
    await until_event(gpus.bed, "faulty", words, contract.EVENT_CARD_RECOVERED)


@pytest_asyncio.fixture(loop_scope="package")
async def old(gpus: GpuBed) -> AsyncIterator[GpuNode]:
    """A T4 whose driver has no recovery actions."""
    spec = KubeletSpec("old-driver", labels=SHARING)
    found = await add_gpu_node(gpus.bed, spec, [card("T4")], era=535)
    await until_allocatable(found, T4)
    yield found
    await found.kubelet.close()
    await gpus.bed.delete_node("old-driver")


async def test_without_recovery_actions_a_gpu_is_closed_across_restarts_until_its_record_is_deleted(
    gpus: GpuBed, old: GpuNode
) -> None:
    needs_reset(old, 0)
    await until_unhealthy(old, "0")
    await until_event(gpus.bed, old.name, says("XID 95 (uncontained"), contract.EVENT_CARD_UNHEALTHY)
    await old.agent.restart()
    await until_registered_with_one_closed(old)
    await until_published(old, (T4, False))
    await until_allocatable(old, 0)
    # As in the runbook: the reset needs an agent that does not run.
    await old.agent.stop()
    old.kubelet.path(f"{contract.DEVICE_PLUGIN_FOLDER}/{contract.FAULT_RECORD}").unlink()
    await old.agent.start()
    await until_unhealthy(old, "")
    await until_allocatable(old, T4)
