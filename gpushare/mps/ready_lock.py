"""Ready state of a GPU's control daemon, shared between processes by a file lock.

The kernel releases the lock when its process ends in any way, so a stale ready state is impossible.
"""

import fcntl
import os
from pathlib import Path


class ReadyLock:
    """The lock of one GPU, used by the supervisor of its control daemon."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def locked(self) -> bool:
        """Whether this object has the lock."""
        return self._file is not None

    def acquire(self) -> bool:
        """Try to acquire the lock; False while another process reads or has it. Raises OSError."""
        if self._file is None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
            else:
                self._file = file
        return self.locked

    def release(self) -> None:
        """Release the lock if this object has it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_ready(path: Path) -> bool:
    """Whether a supervisor has the lock; False if the file does not exist."""
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
