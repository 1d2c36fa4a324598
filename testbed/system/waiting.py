"""Waiting for a condition with a deadline, for several coroutines at once, and work beside a body.

What belongs here: the polling loop of the testbed and its tests. What does not: conditions.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from gpushare.errors import ApiError
from testbed.errors import TestbedError

T = TypeVar("T")
_POLL_S = 0.05


async def until(
    condition: Callable[[], Awaitable[T]], what: str, timeout_s: float = 30.0, poll_s: float = _POLL_S
) -> T:
    """Return the first truthy result of ``condition``, polled every ``poll_s`` seconds.

    An ApiError counts as "not yet". After ``timeout_s`` seconds, raises TestbedError with ``what`` and the
    last result or error.
    """
    deadline = time.monotonic() + timeout_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            answer = await asyncio.wait_for(condition(), max(deadline - time.monotonic(), poll_s))
        except (ApiError, TimeoutError) as error:
            last = error
        else:
            if answer:
                return answer
            last = answer
        await asyncio.sleep(poll_s)
    raise TestbedError(f"timed out after {timeout_s:g} s waiting for {what}; last result: {last!r}")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines concurrently and return their results; the first error cancels the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


@asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run ``work`` while the body runs, and cancel it at the end."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Complete ``work``; a cancellation meanwhile is raised afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
