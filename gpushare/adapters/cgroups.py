"""Control groups: which container a process belongs to, and whether the kubelet is done with a pod.

A pod's group is there before its first container is made, and goes after its last process has ended
(kubernetes pkg/kubelet/kubelet.go, ``SyncPod`` and ``SyncTerminatedPod``). An empty group may be that of
a pod whose containers are still being made, though the pod is gone from the API.

Knows the names that kubelets and container runtimes give to groups with both drivers, on version 1 and 2.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CONTROLLERS: Final = ("", "memory", "pids")
"""Version 2 has one tree; in version 1 any controller that kubelets fill tells as much as another."""
_TOP: Final = "kubepods"
_UID: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A pod's UID; one that the kubelet made up for a static pod has no dashes."""
_CONTAINER: Final = re.compile(r"(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?")
"""``<id>``, or ``cri-containerd-<id>.scope``, ``docker-<id>.scope``, ``crio-<id>.scope``."""


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """The pod, by the kubelet's UID, and the container that a process runs in; its id may be unknown."""

    pod_uid: str
    container_id: str = ""


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
        return uids & {_uid(group.name) for top in self._tops for group in _groups(top)}


def containers_of(pids: Iterable[int], proc: Path) -> dict[int, ContainerRef | None]:
    """Where processes run, None for those in no pod; processes that have ended are left out.

    ``proc`` is a ``/proc`` that shows the host's processes.
    """
    texts = ((pid, _groups_of(proc / str(pid))) for pid in pids)
    return {pid: parse_container(text) for pid, text in texts if text is not None}


def parse_container(text: str) -> ContainerRef | None:
    """The home that ``/proc/<pid>/cgroup`` tells; None for a process in no pod.

    Paths may be relative to the reader's own group, begin anywhere and go on below the container's.
    """
    for line in text.splitlines():
        # The kubelet's systemd driver with a runtime that has another one: <slice>:cri-containerd:<id>.
        parts = re.split("[/:]", line.partition(":")[2].partition(":")[2])
        for place, part in enumerate(parts):
            if "pod" in part and _UID.fullmatch(uid := _uid(part)):
                ids = (match[1] for each in parts[place + 1 :] if (match := _CONTAINER.fullmatch(each)))
                return ContainerRef(uid, next(ids, ""))
    return None


def _groups_of(process: Path) -> str | None:
    try:
        return (process / "cgroup").read_text()
    except OSError:
        return None


def _groups(top: Path) -> Iterator[Path]:
    """What may be a pod's group: below the top, or below one of its classes of service."""
    for folder in (top, *_folders(top)):
        yield from _folders(folder)


def _uid(name: str) -> str:
    """The UID in ``pod<uid>`` or ``kubepods-burstable-pod<uid>.slice``, where systemd wants no dashes."""
    name = name.rpartition("pod")[2]
    slice_ = name.removesuffix(".slice")
    return name if slice_ == name else slice_.replace("_", "-")


def _folders(folder: Path) -> list[Path]:
    try:
        return [Path(entry) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
