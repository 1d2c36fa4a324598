"""Control groups: whether a pod still has processes, whatever the API says of it.

Knows the names that kubelets give to pods' groups with both drivers, on version 1 and 2.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CONTROLLERS: Final = ("", "memory", "pids")
"""Version 2 has one tree; in version 1 any controller that kubelets fill tells as much as another."""
_TOP: Final = "kubepods"
_PROCESSES: Final = "cgroup.procs"


class Cgroups:
    """The tree under ``root``, which is where the host's control groups can be seen."""

    def __init__(self, root: Path) -> None:
        self._tops = [top for name in _CONTROLLERS for top in sorted((root / name).glob(f"{_TOP}*"))]

    @property
    def visible(self) -> bool:
        """Whether any pods' groups can be seen at all."""
        return bool(self._tops)

    def has_processes(self, uid: str) -> bool:
        """Whether a process of the pod is alive. False too where its group is gone."""
        names = (f"pod{uid}", f"pod{uid.replace('-', '_')}.slice")
        return any(_occupied(group) for top in self._tops for group in _groups(top, names))


def _groups(top: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """The pod's groups: under the top, or under one of its classes of service."""
    for folder in (top, *_folders(top)):
        for group in _folders(folder):
            if group.name.endswith(names):
                yield group


def _folders(folder: Path) -> list[Path]:
    try:
        return [Path(entry) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _occupied(group: Path) -> bool:
    return any(_reads(Path(folder) / _PROCESSES) for folder, _, _ in os.walk(group))


def _reads(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False
