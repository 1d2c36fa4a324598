"""Background work in slices, one slice at a time for all jobs of a daemon."""

import asyncio


class Turns:
    """Takes turns: between two slices of background work, of any job, the event loop does all other work.

    With ``asyncio.sleep(0)`` instead, each job computes a slice in each turn of the loop, and a request waits
    for the slices of all jobs.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Return when the caller may compute its next slice."""
        async with self._lock:
            await asyncio.sleep(0)
