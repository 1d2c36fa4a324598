"""Real clusters for integration tests.

What belongs here: fixtures that start beds. What does not: assertions.
"""

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from devkit.folders import bed_folder, cache_root
from testbed import Bed, SchedulerSpec, Testbed
from testbed.control_plane.home import clean, lock_file
from tests.support.faults import FaultRow, row_of
from tests.support.fixtures.shared_beds import Origin, origin_of


@pytest.fixture
def bed_name() -> Iterator[str]:
    """A name for a testbed or for hosts whose owner is killed; all that remains of them is removed."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    folder = bed_folder(name, cache_root())
    clean(folder)
    lock_file(folder).unlink(missing_ok=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_bed() -> AsyncIterator[Bed]:
    """One audited bed for all tests of a module; each test removes what it creates."""
    async with Testbed(audit=True) as bed:
        yield bed


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def worker_bed() -> AsyncIterator[Origin]:
    """The bed of this process for all files with ``clean_bed``."""
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        yield await origin_of(bed)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def clean_bed(worker_bed: Origin) -> AsyncIterator[Bed]:
    """A bed without nodes and scheduler; it is restored after the tests of a module.

    For tests with ``loop_scope="session"``, which leave the components running and add no admission policies
    or webhooks; ``Bed.restart_scheduler`` starts a scheduler.
    """
    yield worker_bed.bed
    enforced = await worker_bed.enforced()
    await worker_bed.restore()
    assert not enforced, "a module that adds admission policies or webhooks has a separate bed"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_bed() -> AsyncIterator[Origin]:
    """The bed of a module whose tests have ``restored_bed``."""
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        yield await origin_of(bed)


@pytest_asyncio.fixture(loop_scope="module")
async def restored_bed(module_bed: Origin) -> AsyncIterator[Bed]:
    """A bed without nodes and scheduler for each test; a test starts the components that it stops again."""
    yield module_bed.bed
    await module_bed.restore()


@pytest.fixture
def fault_row(request: pytest.FixtureRequest) -> FaultRow:
    """The row of the fault table that the test proves."""
    return row_of(request)
