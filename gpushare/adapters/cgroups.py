"""cgroups: the container of a process, and whether the kubelet still keeps a pod's cgroup.

The kubelet creates a pod's cgroup before the first container and removes it after the last process has
ended (kubernetes pkg/kubelet/kubelet.go, ``SyncPod`` and ``SyncTerminatedPod``). An empty cgroup may belong
to a pod with containers that are still being created, even if the pod is gone from the API.

Supports the cgroup names of kubelets and container runtimes with both drivers, on version 1 and 2.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from gpushare.model.own_node import ContainerRef

_CONTROLLERS: Final = ("", "memory", "pids")
"""Version 2 has one tree; in version 1 any controller that kubelets use will do."""
_TOP: Final = "kubepods"
_UID: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A pod's UID; those that the kubelet generates for static pods have no dashes."""
_CONTAINER: Final = re.compile(r"(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?")
"""``<id>``, or ``cri-containerd-<id>.scope``, ``docker-<id>.scope``, ``crio-<id>.scope``."""


class Cgroups:
    """The cgroup tree at ``root``, the mount of the host's cgroups."""

    def __init__(self, root: Path) -> None:
        self._tops = [top for name in _CONTROLLERS for top in sorted((root / name).glob(f"{_TOP}*"))]

    @property
    def visible(self) -> bool:
        """Return whether any cgroups of pods are visible."""
        return bool(self._tops)

    def kept(self, uids: frozenset[str]) -> frozenset[str]:
        """Return those of the pods that still have a cgroup."""
        return uids & {_uid(group.name) for top in self._tops for group in _groups(top)}


def containers_of(pids: Iterable[int], proc: Path) -> dict[int, ContainerRef | None]:
    """Return the container of each process, None outside pods; ended processes are omitted.

    ``proc`` is a ``/proc`` that shows the host's processes.
    """
    texts = ((pid, _groups_of(proc / str(pid))) for pid in pids)
    return {pid: parse_container(text) for pid, text in texts if text is not None}


def parse_container(text: str) -> ContainerRef | None:
    """Parse ``/proc/<pid>/cgroup``; None for a process outside pods.

    Paths may be relative to the reader's cgroup, and continue below the container's.
    """
    for line in text.splitlines():
        # The kubelet's systemd driver with a runtime that uses cgroupfs: <slice>:cri-containerd:<id>.
        parts = re.split("[/:]", line.partition(":")[2].partition(":")[2])
        for position, part in enumerate(parts):
            if "pod" in part and _UID.fullmatch(uid := _uid(part)):
                ids = (match[1] for each in parts[position + 1 :] if (match := _CONTAINER.fullmatch(each)))
                return ContainerRef(uid, next(ids, ""))
    return None


def _groups_of(process: Path) -> str | None:
    try:
        return (process / "cgroup").read_text()
    except OSError:
        return None


def _groups(top: Path) -> Iterator[Path]:
    """Yield candidates for pod cgroups: below the top, or below one of its QoS classes."""
    for folder in (top, *_folders(top)):
        yield from _folders(folder)


def _uid(name: str) -> str:
    """Return the UID in ``pod<uid>`` or ``kubepods-burstable-pod<uid>.slice`` (underscores for dashes)."""
    name = name.rpartition("pod")[2]
    slice_ = name.removesuffix(".slice")
    return name if slice_ == name else slice_.replace("_", "-")


def _folders(folder: Path) -> list[Path]:
    try:
        return [Path(entry) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
