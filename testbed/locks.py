"""Locks between processes, which end with their holder however it ends.

What belongs here: file locks. What does not: what they protect.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from testbed.errors import TestbedError

_POLL_S = 0.1


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
async def exclusive(path: Path, timeout_s: float, holder: str) -> AsyncIterator[None]:
    """Hold the lock on ``path``; raise TestbedError where ``holder`` keeps it for ``timeout_s``."""
    lock = FileLock(path)
    deadline = time.monotonic() + timeout_s
    while not lock.try_acquire():
        if time.monotonic() > deadline:
            raise TestbedError(f"{holder} has kept {path} locked for {timeout_s:g} s: wait for it, or end it")
        await asyncio.sleep(_POLL_S)
    try:
        yield
    finally:
        lock.release()
