"""Locks between processes, which end with their holder however it ends.

What belongs here: file locks. What does not: what they protect.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from testbed.errors import TestbedError

POLL_S = 0.1
"""Seconds between two tries of those who wait."""


class FileLock:
    """An exclusive lock on a file; children of the holder do not inherit it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if nobody has it; return whether this object holds it now."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@asynccontextmanager
async def exclusive(
    path: Path, timeout_s: float, holder: str, *, unless: Callable[[], bool] = lambda: False
) -> AsyncIterator[None]:
    """Hold the lock on ``path``; raise TestbedError where ``holder`` keeps it for ``timeout_s``.

    Nobody waits for it who needs it no more, as ``unless`` tells: the block then runs without it.
    """
    lock = FileLock(path)
    deadline = time.monotonic() + timeout_s
    while not lock.try_acquire() and not unless():
        if time.monotonic() > deadline:
            raise TestbedError(f"{holder} has kept {path} locked for {timeout_s:g} s: wait for it, or end it")
        await asyncio.sleep(POLL_S)
    try:
        yield
    finally:
        lock.release()
