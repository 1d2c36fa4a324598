"""One control plane for all tests of a module: three nodes with two GPUs each, and no scheduler.

What belongs here: shared fixtures. What does not: extenders, which each test starts with a separate Lease.
"""

from collections.abc import AsyncIterator

import pytest_asyncio

from testbed import Bed, Card, SchedulerSpec, SimNode, Testbed
from testbed.daemons.extender import grant
from tests.fixtures.fault_arena import NODES, SIZE, FaultArena, fault_arena
from tests.support.faults import FaultRow


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with Testbed(scheduler=SchedulerSpec(None)) as running:
        await grant(running, new=True)
        await running.add_nodes([SimNode(name, [Card(units=SIZE), Card(units=SIZE)]) for name in NODES])
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def arena(bed: Bed, fault_row: FaultRow) -> AsyncIterator[FaultArena]:
    async with fault_arena(bed, fault_row) as running:
        yield running
