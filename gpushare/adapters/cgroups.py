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

from gpushare.adapters.files import text_if_any
from gpushare.errors import KubeletError
from gpushare.model.local_node import ContainerRef

_CONTROLLERS: Final = ("memory", "pids")
"""In version 1 any controller that kubelets use will do; version 2 has one tree."""
_TOP: Final = re.compile(r"(?:.+-)?kubepods(?:\.slice)?")
"""``kubepods`` or ``kubepods.slice``; with ``--cgroup-root=/kubelet``, ``kubelet-kubepods.slice``."""
_DEPTH: Final = 4
"""How deep a kubelet in a container has its top: ``system.slice/docker-<id>.scope/kubelet.slice/<top>``."""
_UID: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A pod's UID; those that the kubelet generates for static pods have no dashes."""
_CONTAINER: Final = re.compile(r"(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?")
"""``<id>``, or ``cri-containerd-<id>.scope``, ``docker-<id>.scope``, ``crio-<id>.scope``."""


class Cgroups:
    """The cgroup tree at ``root``, the mount of the host's cgroups."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def visible(self) -> bool:
        """Return whether any cgroups of pods are visible."""
        try:
            return any(self._tops())
        except KubeletError:
            return False

    def kept(self, uids: frozenset[str]) -> frozenset[str] | None:
        """Return those of the pods that still have a cgroup; None if no cgroups of pods are visible.

        The tops are looked up each time: the kubelet creates its own when it starts, maybe after the caller.
        Raises KubeletError for a folder that cannot be read.
        """
        tops = list(self._tops())
        if not tops:
            return None
        return uids & {_uid(group.name) for top in tops for group in _groups(top)}

    def _tops(self) -> Iterator[Path]:
        """Yield the folders below which kubelets keep cgroups of pods, also those of nested kubelets."""
        controllers = [folder for name in _CONTROLLERS if (folder := self._root / name).is_dir()]
        for folder in controllers or [self._root]:
            yield from _below(folder, _TOP, _DEPTH)


def containers_of(pids: Iterable[int], proc: Path) -> dict[int, ContainerRef | None]:
    """Return the container of each process, None outside pods; ended processes are omitted.

    ``proc`` is a ``/proc`` that shows the host's processes.
    """
    texts = ((pid, text_if_any(proc / str(pid) / "cgroup")) for pid in pids)
    return {pid: parse_container(text) for pid, text in texts if text}


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


def _below(folder: Path, name: re.Pattern[str], depth: int) -> Iterator[Path]:
    """Yield the topmost folders with such a name."""
    for each in _folders(folder):
        if name.fullmatch(each.name):
            yield each
        elif depth > 1:
            yield from _below(each, name, depth - 1)


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
    """Return the folders in a folder, none if it is gone."""
    try:
        return [Path(entry) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise KubeletError(f"cannot read {folder}: {error.strerror}") from error
