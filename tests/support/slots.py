"""How many files of tests run at once, over all pytest processes of a run.

Each process has a slot while it runs a file: the lock of one file in the folder of ``GPUSHARE_SLOTS``. Other
programs take part with ``flock``. Without the variable there is no limit.
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

FOLDER: Final = "GPUSHARE_SLOTS"
_QUEUE: Final = "queue"
_POLL_S: Final = 0.1


class Slots:
    """The slots in ``folder``, of which this process has at most one; None for no limit.

    Processes get slots in the order in which they ask: the lock of the queue belongs to the next one. The
    kernel releases the locks of a process that is killed.
    """

    def __init__(self, folder: Path | None, *, pause: Callable[[], None] | None = None) -> None:
        self._folder = folder
        self._pause = pause or (lambda: time.sleep(_POLL_S))
        self._held: IO[str] | None = None

    @classmethod
    def of_environment(cls) -> "Slots":
        """The slots of this run."""
        folder = os.environ.get(FOLDER)
        return cls(Path(folder) if folder else None)

    def take(self) -> None:
        """Wait for a slot, unless this process has one."""
        if self._folder is None or self._held:
            return
        with (self._folder / _QUEUE).open("a") as queue:
            fcntl.flock(queue, fcntl.LOCK_EX)
            while not (found := _free(self._folder)):
                self._pause()
            self._held = found

    def release(self) -> None:
        """Let another process run."""
        if self._held:
            self._held.close()
        self._held = None


def _free(folder: Path) -> IO[str] | None:
    """A locked slot; None if all are taken."""
    for path in sorted(each for each in folder.iterdir() if each.name != _QUEUE):
        slot = path.open()
        try:
            fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            slot.close()
        else:
            return slot
    return None
