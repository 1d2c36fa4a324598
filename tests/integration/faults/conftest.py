"""Three nodes with two GPUs each, and no scheduler, on the control plane that files of tests share.

What belongs here: shared fixtures. What does not: extenders, which each test starts with a separate Lease.
"""

from collections.abc import AsyncIterator

import pytest_asyncio

from testbed import Bed
from tests.support.faults import FaultRow
from tests.support.fixtures.fault_arena import FaultArena, add_arena, fault_arena


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bed(clean_bed: Bed) -> Bed:
    await add_arena(clean_bed)
    return clean_bed


@pytest_asyncio.fixture(loop_scope="session")
async def arena(bed: Bed, fault_row: FaultRow) -> AsyncIterator[FaultArena]:
    async with fault_arena(bed, fault_row) as running:
        yield running
