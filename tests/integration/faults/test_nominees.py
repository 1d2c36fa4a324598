"""Pods that wait for the same units, nominated to one node by others than the extender."""

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed, gpu_pod
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.support.faults import FaultRow, fault, moments_of_overcommit
from tests.support.fixtures.bind_load import PODS, differences
from tests.support.history import Recorder

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIZE = 8
GATE = [{"name": "example.com/wait"}]
BOTH = ("one", "other")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def extender() -> AsyncIterator[tuple[Bed, ExtenderSpec]]:
    spec = ExtenderSpec()
    async with Testbed(scheduler=SchedulerSpec(extenders=[component_config(spec.url)])) as bed:
        await grant(bed)
        await start_extender(bed, spec)
        await bed.add_nodes([SimNode("n", [SimGpu(units=SIZE), SimGpu(units=3), SimGpu(units=3)])])
        yield bed, spec


@fault("two nominated pods of equal priority wait for the same units", component="kube-scheduler")
async def test_of_two_equal_nominees_one_is_bound(
    extender: tuple[Bed, ExtenderSpec], fault_row: FaultRow
) -> None:
    """Kueue and autoscalers may set the field; each of the two once left the units to the other, for good."""
    bed, spec = extender
    async with Recorder(bed.api, path=PODS) as recorder:
        for name in BOTH:
            await bed.create_pods([gpu_pod(name, 6, schedulingGates=GATE)])
            await bed.api.patch(f"{PODS}/{name}/status", {"status": {"nominatedNodeName": "n"}})
        for name in BOTH:
            await bed.api.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": []}})

        async def one_is_bound() -> bool:
            return any(each["spec"].get("nodeName") for each in await bed.api.items(PODS))

        await fault_row.recovers(one_is_bound, "bind of one of them", since=time.monotonic(), within_s=30)

        lost, _ = await differences(bed.api, spec)
        fault_row.proved(moments_of_overcommit(await recorder.caught_up(), SIZE), lost)
