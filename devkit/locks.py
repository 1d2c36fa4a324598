"""File locks between processes; the kernel releases them when the process exits."""

import asyncio
import fcntl
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from devkit.errors import DevkitError

POLL_S = 0.1
"""Seconds between two attempts to take a lock."""


class FileLock:
    """An exclusive lock on a file; child processes do not inherit it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free; return whether this object has it now."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Release the lock, if this object has it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@asynccontextmanager
async def exclusive(
    path: Path, timeout_s: float, holder: str, *, unless: Callable[[], bool] = lambda: False
) -> AsyncIterator[None]:
    """Hold the lock on ``path``; raise DevkitError after ``timeout_s`` seconds, with ``holder``.

    If ``unless`` returns true while waiting, the block runs without the lock.
    """
    lock = FileLock(path)
    deadline = time.monotonic() + timeout_s
    while not lock.try_acquire() and not unless():
        if time.monotonic() > deadline:
            raise DevkitError(f"{holder} has kept {path} locked for {timeout_s:g} s: wait for it, or stop it")
        await asyncio.sleep(POLL_S)
    try:
        yield
    finally:
        lock.release()


async def create_once(
    folder: Path, create: Callable[[Path], Awaitable[object]], timeout_s: float, holder: str
) -> Path:
    """Return ``folder``; if it does not exist, let ``create`` write its content, in one process at a time.

    ``create`` gets another path, so that an incomplete folder is never used. See ``exclusive`` for
    ``timeout_s`` and ``holder``.
    """
    async with exclusive(folder.with_suffix(".lock"), timeout_s, holder):
        if not folder.is_dir():  # noqa: ASYNC240 - one call on a local disk
            fresh = folder.with_suffix(".fresh")
            shutil.rmtree(fresh, ignore_errors=True)
            await create(fresh)
            fresh.rename(folder)
    return folder
