"""Real clusters for integration tests.

What belongs here: fixtures that start beds. What does not: assertions.
"""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from testbed import Bed, Testbed
from testbed.control_plane.home import clean, lock_file
from testbed.system.folders import bed_folder, cache_root
from tests.support.faults import FaultRow, row_of


@pytest.fixture
def bed_name() -> Iterator[str]:
    """A name for a testbed or for hosts whose owner is killed; all that remains of them is removed."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    folder = bed_folder(name, cache_root())
    clean(folder)
    lock_file(folder).unlink(missing_ok=True)


@pytest_asyncio.fixture(loop_scope="module")
async def start_bed() -> AsyncIterator[Callable[[Testbed], Awaitable[Bed]]]:
    """Return a function that starts a bed; all beds it started end with the test.

    For tests with ``loop_scope="module"``: a bed's client lives in the loop that started it.
    """
    async with AsyncExitStack() as stack:
        yield stack.enter_async_context


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_bed() -> AsyncIterator[Bed]:
    """One audited bed for all tests of a module; each test removes what it creates."""
    async with Testbed(audit=True) as bed:
        yield bed


@pytest.fixture
def fault_row(request: pytest.FixtureRequest) -> FaultRow:
    """The row of the fault table that the test proves."""
    return row_of(request)
