"""GPUs that an administrator reconfigures while pods run: MIG, ECC, compute mode; on a real kubelet."""

from collections.abc import Iterator

import pytest

from gpushare import contract
from testbed.daemons.agent import GpuNode
from tests.support.fixtures.agents import one_library
from tests.support.fixtures.gpu_nodes import (
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

NOTICED_S = 60
PROHIBITED = 2
TOTAL_MIB = 15360
WITH_ECC = 14336
"""Total MiB of a T4 with fewer usable ones: 13 units instead of 14."""


@pytest.fixture(autouse=True)
def restored(node: GpuNode) -> Iterator[None]:
    uuids = [node.stub.uuid(index) for index in (0, 1)]
    yield
    for index, uuid in enumerate(uuids):
        node.stub.set(index, uuid=uuid, total_mib=TOTAL_MIB, mig=None, compute_mode=0)


async def test_mig_mode_closes_a_gpu_and_affects_no_running_pod(gpus: GpuBed, node: GpuNode) -> None:
    bed, before = gpus.bed, await one_pod(gpus, node)
    node.stub.set(0, mig=1)
    await until_unhealthy(node, "0", NOTICED_S)
    await until_allocatable(node, T4)
    await until_event(bed, "faulty", lambda text: "MIG mode" in text, contract.EVENT_CARD_UNHEALTHY)
    await until_published(node, (T4, False), (T4, True))
    assert await metric(node, "gpushare_device_plugin_cards", state="unhealthy") == 1
    await start_pods(bed, pod("beside", container(6)))
    assert cards_of(node) == {"on-card-0": 0, "beside": 1}
    assert [each for each in live(node) if each.pod == "default/on-card-0"] == before
    node.stub.set(0, mig=None)
    await until_unhealthy(node, "", NOTICED_S)
    await until_allocatable(node, 2 * T4)
    await until_agreed(node, gpus.extender)


async def test_a_gpu_that_became_smaller_gets_its_size_after_its_last_pod(
    gpus: GpuBed, node: GpuNode
) -> None:
    bed = gpus.bed
    await start_pods(bed, pod("before-ecc", container(T4)))
    assert cards_of(node) == {"before-ecc": 0}
    node.stub.set(0, total_mib=WITH_ECC)
    await until_unhealthy(node, "0", NOTICED_S)
    await until_published(node, (T4, False), (T4, True))
    assert cards_of(node) == {"before-ecc": 0}
    await remove(bed, "before-ecc")
    await until_unhealthy(node, "", NOTICED_S)
    await until_allocatable(node, 2 * T4 - 1)
    smaller = f"GPU 0 (Tesla T4) has {T4 - 1} units instead of {T4}"
    await until_event(bed, "faulty", lambda text: smaller in text, contract.EVENT_CARDS_CHANGED)
    node.stub.set(0, total_mib=TOTAL_MIB)
    await until_allocatable(node, 2 * T4, NOTICED_S)
    await until_agreed(node, gpus.extender)


async def test_a_gpu_that_was_swapped_takes_no_pods_and_affects_no_running_pod(
    gpus: GpuBed, node: GpuNode
) -> None:
    """The driver reports another GPU at the index, which the library that the agent has opened cannot."""
    before, uuid = await one_pod(gpus, node), node.stub.uuid(0)
    async with one_library(node):
        node.stub.set(0, uuid="GPU-swapped")
        await until_unhealthy(node, "0", NOTICED_S)
        await until_allocatable(node, T4)
        await until_event(gpus.bed, "faulty", lambda text: uuid in text, contract.EVENT_CARD_UNHEALTHY)
        assert [each for each in live(node) if each.pod == "default/on-card-0"] == before
        node.stub.set(0, uuid=uuid)
    await until_unhealthy(node, "", NOTICED_S)
    await until_allocatable(node, 2 * T4)
    await until_agreed(node, gpus.extender)


async def test_a_gpu_that_programs_must_not_use_takes_no_pods(gpus: GpuBed, node: GpuNode) -> None:
    node.stub.set(1, compute_mode=PROHIBITED)
    await until_unhealthy(node, "1", NOTICED_S)
    await until_allocatable(node, T4)
    command = "nvidia-smi -i 1 -c DEFAULT"
    await until_event(gpus.bed, "faulty", lambda text: command in text, contract.EVENT_CARD_UNHEALTHY)
    node.stub.set(1, compute_mode=0)
    await until_unhealthy(node, "", NOTICED_S)
    await until_allocatable(node, 2 * T4)
