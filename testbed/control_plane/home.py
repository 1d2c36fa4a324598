"""The folder of a testbed: its lock, leftovers of an earlier run, and the note of a testbed that was left up.

What does not belong here: the processes of a testbed (``testbed.control_plane.bed``).
"""

import json
import secrets
import shutil
from pathlib import Path
from typing import Any

from devkit import pids
from devkit.errors import DevkitError
from devkit.folders import ANONYMOUS_PREFIX, bed_folder, cache_root, data_folder
from devkit.locks import FileLock
from gpushare.errors import ConfigError
from testbed import cgroups

_NOTE = "up.json"


class Home:
    """The folder of one testbed, locked until ``release`` or the exit of this process."""

    def __init__(self, name: str, folder: Path, lock: FileLock) -> None:
        self.name = name
        self.folder = folder
        self.data = data_folder(folder)
        self._lock = lock

    @classmethod
    def take(cls, name: str | None) -> "Home":
        """Lock the folder of ``name`` (None: a new one), kill leftover processes, and empty it.

        Raises DevkitError if another process uses the testbed, or if it was left up.
        """
        root = cache_root()
        sweep_anonymous(root)
        chosen = name or ANONYMOUS_PREFIX + secrets.token_hex(6)
        folder = bed_folder(chosen, root)
        lock = FileLock(lock_file(folder))
        if not lock.try_acquire():
            raise DevkitError(
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
        """Kill the processes of the folder and recreate it."""
        clean(self.folder)
        self.folder.mkdir(mode=0o700, parents=True)

    def leave_up(self, note: dict[str, Any]) -> None:
        """Write the note of a testbed that outlives this process, and release the lock."""
        (self.folder / _NOTE).write_text(json.dumps(note, indent=1))
        self._lock.release()

    def release(self, *, keep: bool = False) -> None:
        """Remove the data; keep the logs of a named testbed, with ``keep`` of any, until the next start."""
        shutil.rmtree(self.data, ignore_errors=True)
        if self.name.startswith(ANONYMOUS_PREFIX) and not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.path.unlink(missing_ok=True)
        self._lock.release()


def note_of(folder: Path) -> dict[str, Any] | None:
    """Return the note of a testbed that was left up, or None."""
    try:
        note: dict[str, Any] = json.loads((folder / _NOTE).read_text())
    except (OSError, ValueError):
        return None
    return note


def refuse_if_up(folder: Path) -> None:
    """Raise DevkitError if the testbed was left up and is still running."""
    if note_of(folder) and pids.running(folder):
        raise DevkitError(
            f"testbed {folder.name!r} is up: stop it with `python -m testbed down --name {folder.name}`, "
            "or choose another name"
        )


def clean(folder: Path) -> list[str]:
    """Kill the processes of a testbed, and remove its folder and data; return their names."""
    killed = _sweep(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return killed


def take_down(folder: Path) -> list[str]:
    """Stop a testbed that was left up; its logs stay. Return the names of the killed processes.

    Raises ConfigError if there is no such testbed, DevkitError if it belongs to a running process.
    """
    if not folder.is_dir():
        raise ConfigError(f"there is no testbed {folder.name!r}: `python -m testbed status` lists them")
    lock = FileLock(lock_file(folder))
    if not lock.try_acquire():
        raise DevkitError(f"testbed {folder.name!r} belongs to a running process: stop that process instead")
    try:
        killed = _sweep(folder)
        (folder / _NOTE).unlink(missing_ok=True)
    finally:
        lock.release()
    return killed


def _sweep(folder: Path) -> list[str]:
    killed = pids.sweep(folder)
    groups = f"{cgroups.prefix_of(folder)}*"
    cgroups.kill(groups)
    cgroups.remove(groups)
    shutil.rmtree(data_folder(folder), ignore_errors=True)
    return killed


def sweep_anonymous(root: Path) -> None:
    """Clean unnamed testbeds that no process owns."""
    for folder in (root / "beds").glob(f"{ANONYMOUS_PREFIX}*/"):
        lock = FileLock(lock_file(folder))
        if note_of(folder) or not lock.try_acquire():
            continue
        clean(folder)
        lock.path.unlink(missing_ok=True)
        lock.release()


def lock_file(folder: Path) -> Path:
    """Return the lock file of a testbed; it is outside the folder, which is emptied."""
    return folder.with_name(folder.name + ".lock")
