"""The kubelet's record of device allocations, the file ``kubelet_internal_checkpoint``.

Read-only: the devices of each container, and the device plugin's response. Its content belongs in
``plugin_response``: not every image has protobuf. The format is that of
``pkg/kubelet/cm/devicemanager/checkpoint`` in Kubernetes 1.36; kubelets before 1.20 wrote the IDs as one
list, later ones by NUMA node. The kubelet replaces the file by rename.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpushare.errors import KubeletError


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """The devices of one resource that are allocated to one container.

    ``response`` is the device plugin's serialized ContainerAllocateResponse; see ``plugin_response``.
    """

    pod_uid: str
    container: str
    resource: str
    ids: frozenset[str]
    response: bytes = b""


Checkpoint = tuple[CheckpointEntry, ...]
"""All allocations that the kubelet has recorded."""


class _DeviceEntry(msgspec.Struct):
    pod_uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    ids: list[str] | dict[str, list[str]] | None = msgspec.field(name="DeviceIDs")
    response: bytes | None = msgspec.field(name="AllocResp", default=None)


class _CheckpointData(msgspec.Struct):
    entries: list[_DeviceEntry] | None = msgspec.field(name="PodDeviceEntries")


class _CheckpointDocument(msgspec.Struct):
    data: _CheckpointData = msgspec.field(name="Data")


_DECODER = msgspec.json.Decoder(_CheckpointDocument)


class CheckpointFile:
    """The checkpoint file, reread only after it changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int, int] | None = None
        self._read: Checkpoint | None = None

    def latest(self) -> Checkpoint | None:
        """Return the current checkpoint; None if the file does not exist. Raises KubeletError."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                version = status.st_ino, status.st_mtime_ns, status.st_size
                if version != self._version:
                    self._read = _decode(file.read(), self._path)
                    self._version = version
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KubeletError(f"{self._path}: {error.strerror}") from error
        return self._read


def _decode(text: bytes, path: Path) -> Checkpoint:
    try:
        file = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise KubeletError(f"{path}: not a checkpoint of the kubelet's device manager: {error}") from error
    return tuple(
        CheckpointEntry(
            each.pod_uid, each.container, each.resource, frozenset(_flat(each.ids)), each.response or b""
        )
        for each in file.data.entries or ()
    )


def _flat(ids: list[str] | dict[str, list[str]] | None) -> Iterable[str]:
    if isinstance(ids, dict):
        return (each for group in ids.values() for each in group)
    return ids or ()
