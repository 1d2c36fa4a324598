"""Real clusters for integration tests.

What belongs here: fixtures that start beds. What does not: assertions.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest_asyncio

from testbed import Bed, Testbed


@pytest_asyncio.fixture(loop_scope="module")
async def start_bed() -> AsyncIterator[Callable[[Testbed], Awaitable[Bed]]]:
    """Return a function that starts a bed; all beds it started end with the test.

    For tests with ``loop_scope="module"``: a bed's client lives in the loop that started it.
    """
    async with AsyncExitStack() as stack:
        yield stack.enter_async_context


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_bed() -> AsyncIterator[Bed]:
    """One audited bed for all tests of a module; each test cleans up behind itself."""
    async with Testbed(audit=True) as bed:
        yield bed
