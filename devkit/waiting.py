"""Waiting for a condition with a deadline, for several coroutines at once, and work beside a body.

What belongs here: the polling loop of the testbed and its tests. What does not: conditions.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from devkit.errors import DevkitError
from gpushare.errors import ApiError

T = TypeVar("T")
_POLL_S: Final = 0.05
_SLOWEST_POLL_S: Final = 0.5
_POLL_GROWTH: Final = 1.1


def timeout_factor() -> float:
    """Return how many times longer than usual a condition may take, for runs that overload their machine."""
    return float(os.environ.get("GPUSHARE_TIMEOUT_FACTOR", "1"))


async def until(
    condition: Callable[[], Awaitable[T | None]],
    what: str,
    timeout_s: float = 30.0,
    poll_s: float = _POLL_S,
    slowest_poll_s: float = _SLOWEST_POLL_S,
) -> T:
    """Return the first truthy result of ``condition``, polled every ``poll_s`` seconds, and less often later.

    The interval grows to ``slowest_poll_s`` at most. An ApiError counts as "not yet". After ``timeout_s``
    seconds, times the factor of the environment, raises DevkitError with ``what`` and the last result or
    error.
    """
    timeout_s *= timeout_factor()
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
        poll_s = max(poll_s, min(poll_s * _POLL_GROWTH, slowest_poll_s))
    raise DevkitError(f"timed out after {timeout_s:g} s waiting for {what}; last result: {last!r}")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines concurrently and return their results; the first error cancels the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


@asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, T]) -> AsyncIterator["asyncio.Task[T]"]:
    """Run ``work`` while the body runs, and cancel it at the end; yield its task."""
    task = asyncio.ensure_future(work)
    try:
        yield task
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
