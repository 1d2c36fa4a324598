"""Mounts: the source on the node of a path in a container, and what a mount of the node forbids."""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from gpushare.adapters.files import text_if_any

_INIT: Final = 1
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
"""A space, a tab, a line feed or a backslash in a path: proc_pid_mountinfo(5), as in fstab(5)."""


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


def noexec_mount_of(folder: Path, proc: Path) -> str | None:
    """Return the mount point of the node that ``folder`` is on, if it is mounted ``noexec``; else None.

    ``proc`` shows the host's processes, so that its first one has the mounts of the node. Those of a
    container do not tell: runc drops ``noexec`` from mounts that are read-only, and keeps it in a user
    namespace. Symbolic links in the path are not followed.
    """
    mounted = None
    for point, options in _mounts_of(_INIT, proc):
        # Of several mounts on one path, the last one is on top.
        if folder.is_relative_to(point) and (mounted is None or point.is_relative_to(mounted[0])):
            mounted = point, options
    return str(mounted[0]) if mounted and "noexec" in mounted[1] else None


def _mounts_of(pid: int, proc: Path) -> Iterator[tuple[PurePosixPath, list[str]]]:
    """The mount points of a process with the options of each mount, in the order of the kernel."""
    for line in text_if_any(proc / str(pid) / "mountinfo").splitlines():
        fields = line.split(maxsplit=6)
        if len(fields) > 5:  # noqa: PLR2004 - the number of the field of the options
            yield PurePosixPath(_ESCAPED.sub(_character, fields[4])), fields[5].split(",")


def _character(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 8))
