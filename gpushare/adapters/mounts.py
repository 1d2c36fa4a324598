"""Mounts of processes: the source on the node of a path in a container."""

import os
from pathlib import Path
from typing import NamedTuple

from gpushare.adapters.files import text_if_any


class MountSource(NamedTuple):
    """A mount source: a path within a filesystem, and the filesystem's device, ``major:minor``."""

    device: str
    path: str


def is_separate_filesystem(folder: Path, proc: Path = Path("/proc")) -> bool:
    """Whether a whole filesystem is mounted on ``folder``, so that full, it affects no other folder.

    In a container, the folder is always a mount, but mostly of a folder of a larger filesystem.
    """
    source = source_of(str(folder.resolve()), os.getpid(), proc)
    return source is not None and source.path == "/"


def source_of(inside: str, pid: int, proc: Path) -> MountSource | None:
    """Return the mount at path ``inside`` of a process; None if there is none or the process has ended.

    ``proc`` is a ``/proc`` that shows the host's processes. The fields of a line are those of Linux
    Documentation/filesystems/proc.rst, 3.5: the third is the device, the fourth the root of the mount, the
    fifth the mount point. Of several mounts on one path, the first counts: it is the oldest.
    """
    text = text_if_any(proc / str(pid) / "mountinfo")
    lines = (line.split(maxsplit=5) for line in text.splitlines() if inside in line)
    return next((MountSource(*each[2:4]) for each in lines if each[4:5] == [inside]), None)
