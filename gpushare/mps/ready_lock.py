"""Whether a card's control daemon is up, told from one process to another by a lock.

The kernel lets go of a lock when its holder ends, however it ends: nothing is left behind that lies.
"""

import fcntl
import os
from pathlib import Path


class ReadyLock:
    """The lock of one card, for who keeps its daemon up."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether we have it."""
        return self._file is not None

    def take(self) -> bool:
        """Whether we have it now; it may be looked at, or be somebody else's. Raises OSError."""
        if self._file is None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
            else:
                self._file = file
        return self.held

    def drop(self) -> None:
        """Let go of it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_ready(path: Path) -> bool:
    """Whether somebody has the lock; not while there is no such file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(file)
