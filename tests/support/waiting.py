"""Waiting for other tasks, threads and processes.

What belongs here: the polling loop of tests whose condition is a plain function. What does not: conditions
that are awaited, with the last answer in the error (``testbed.until``).
"""

import asyncio
from collections.abc import Callable

from devkit.waiting import timeout_factor


async def until(condition: Callable[[], object], *, within_s: float = 20.0, poll_s: float = 0.001) -> None:
    """Return when the condition is true. Raises TimeoutError after ``within_s`` seconds, times the factor.

    With ``poll_s=0`` the condition is checked at every turn of the event loop.
    """
    async with asyncio.timeout(within_s * timeout_factor()):
        while not condition():
            await asyncio.sleep(poll_s)
