"""Control groups: whether the kubelet is done with a pod, whatever the API says of it.

A pod's group is there before its first container is made, and goes after its last process has ended
(kubernetes pkg/kubelet/kubelet.go, ``SyncPod`` and ``SyncTerminatedPod``). An empty group may be that of
a pod whose containers are still being made, though the pod is gone from the API.

Knows the names that kubelets give to pods' groups with both drivers, on version 1 and 2.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CONTROLLERS: Final = ("", "memory", "pids")
"""Version 2 has one tree; in version 1 any controller that kubelets fill tells as much as another."""
_TOP: Final = "kubepods"


class Cgroups:
    """The tree under ``root``, which is where the host's control groups can be seen."""

    def __init__(self, root: Path) -> None:
        self._tops = [top for name in _CONTROLLERS for top in sorted((root / name).glob(f"{_TOP}*"))]

    @property
    def visible(self) -> bool:
        """Whether any pods' groups can be seen at all."""
        return bool(self._tops)

    def kept(self, uids: frozenset[str]) -> frozenset[str]:
        """The pods among these whose group the kubelet keeps."""
        return uids & {_uid(group) for top in self._tops for group in _groups(top)}


def _groups(top: Path) -> Iterator[Path]:
    """What may be a pod's group: below the top, or below one of its classes of service."""
    for folder in (top, *_folders(top)):
        yield from _folders(folder)


def _uid(group: Path) -> str:
    """The UID in ``pod<uid>`` or ``kubepods-burstable-pod<uid>.slice``, where systemd wants no dashes."""
    name = group.name.rpartition("pod")[2]
    slice_ = name.removesuffix(".slice")
    return name if slice_ == name else slice_.replace("_", "-")


def _folders(folder: Path) -> list[Path]:
    try:
        return [Path(entry) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
