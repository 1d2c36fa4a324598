"""A bed's folder: who has it, what an earlier bed left in it, and whether it outlives its command.

What belongs here: locking, cleaning and the note of a bed that stays up. What does not: what runs in
a bed (``testbed.control_plane.bed``).
"""

import json
import secrets
import shutil
from pathlib import Path
from typing import Any

from gpushare.errors import ConfigError
from testbed.errors import TestbedError
from testbed.system import cgroups, pids
from testbed.system.folders import ANONYMOUS_PREFIX, bed_folder, cache_root, data_folder
from testbed.system.locks import FileLock

_NOTE = "up.json"


class Home:
    """The folder of one bed, locked until ``release`` or the end of this process."""

    def __init__(self, name: str, folder: Path, lock: FileLock) -> None:
        self.name = name
        self.folder = folder
        self.data = data_folder(folder)
        self._lock = lock

    @classmethod
    def take(cls, name: str | None) -> "Home":
        """Lock the folder of ``name`` (None: a new one), kill what was left in it, and empty it.

        Raises TestbedError where another process has the bed, or where it was left up on purpose.
        """
        root = cache_root()
        sweep_anonymous(root)
        chosen = name or ANONYMOUS_PREFIX + secrets.token_hex(6)
        folder = bed_folder(chosen, root)
        lock = FileLock(lock_file(folder))
        if not lock.try_acquire():
            raise TestbedError(
                f"testbed {chosen!r} is in use by another process: choose another name, or none"
            )
        try:
            refuse_if_up(folder)
            home = cls(chosen, folder, lock)
            home.empty()
        except BaseException:
            lock.release()
            raise
        return home

    def empty(self) -> None:
        """Kill what runs in the folder and make it a new one."""
        clean(self.folder)
        self.folder.mkdir(mode=0o700, parents=True)

    def leave_up(self, note: dict[str, Any]) -> None:
        """Say that the bed outlives this process, and give up the lock."""
        (self.folder / _NOTE).write_text(json.dumps(note, indent=1))
        self._lock.release()

    def release(self, *, keep: bool = False) -> None:
        """Remove the data; keep the logs of a named bed, and with ``keep`` of any, until the next start."""
        shutil.rmtree(self.data, ignore_errors=True)
        if self.name.startswith(ANONYMOUS_PREFIX) and not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.path.unlink(missing_ok=True)
        self._lock.release()


def note_of(folder: Path) -> dict[str, Any] | None:
    """Return what was noted of a bed that was left up, or None where there is no such bed."""
    try:
        note: dict[str, Any] = json.loads((folder / _NOTE).read_text())
    except (OSError, ValueError):
        return None
    return note


def refuse_if_up(folder: Path) -> None:
    """Raise TestbedError where the bed was left up and still runs."""
    if note_of(folder) and pids.running(folder):
        raise TestbedError(
            f"testbed {folder.name!r} is up: end it with `python -m testbed down --name {folder.name}`, "
            "or choose another name"
        )


def clean(folder: Path) -> list[str]:
    """Kill what runs of a bed and remove its folder and data; return the names of what was killed."""
    killed = _sweep(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return killed


def take_down(folder: Path) -> list[str]:
    """End a bed that was left up; its logs stay. Return the names of what was killed.

    Raises ConfigError where there is no such bed, TestbedError where a living process owns it.
    """
    if not folder.is_dir():
        raise ConfigError(f"no testbed is called {folder.name!r}: `python -m testbed status` lists them")
    lock = FileLock(lock_file(folder))
    if not lock.try_acquire():
        raise TestbedError(f"testbed {folder.name!r} belongs to a running process: end that process instead")
    try:
        killed = _sweep(folder)
        (folder / _NOTE).unlink(missing_ok=True)
    finally:
        lock.release()
    return killed


def _sweep(folder: Path) -> list[str]:
    killed = pids.sweep(folder)
    cgroups.remove(f"{cgroups.prefix_of(folder)}*")
    shutil.rmtree(data_folder(folder), ignore_errors=True)
    return killed


def sweep_anonymous(root: Path) -> None:
    """Clean the beds without a name whose owner is gone."""
    for folder in (root / "beds").glob(f"{ANONYMOUS_PREFIX}*/"):
        lock = FileLock(lock_file(folder))
        if note_of(folder) or not lock.try_acquire():
            continue
        clean(folder)
        lock.path.unlink(missing_ok=True)
        lock.release()


def lock_file(folder: Path) -> Path:
    """Return the file that the owner of a bed keeps locked; outside, because the folder is emptied."""
    return folder.with_name(folder.name + ".lock")
