"""Mounts of processes of this machine: what of the node a container has at one of its paths."""

from pathlib import Path
from typing import NamedTuple


class MountSource(NamedTuple):
    """What is mounted: a path within a filesystem, and the device of that filesystem, ``major:minor``."""

    device: str
    path: str


def source_of(inside: str, pid: int, proc: Path) -> MountSource | None:
    """What a process has mounted at that path, as it sees it; None where it has nothing, or has ended.

    ``proc`` is a ``/proc`` that shows the host's processes. The fields of a line are those of Linux
    Documentation/filesystems/proc.rst, 3.5: the third is the device, the fourth the root of the mount, the
    fifth where it is mounted. Where several lie on each other the first counts: it was there first.
    """
    try:
        text = (proc / str(pid) / "mountinfo").read_text(errors="replace")
    except OSError:
        return None
    lines = (line.split(maxsplit=5) for line in text.splitlines() if inside in line)
    return next((MountSource(*each[2:4]) for each in lines if each[4:5] == [inside]), None)
