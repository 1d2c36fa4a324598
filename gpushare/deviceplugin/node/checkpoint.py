"""Devices that the kubelet has allocated, from its checkpoint or from the PodResources API.

``Observer`` alone reads the checkpoint and applies it to the node state.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import structlog

from gpushare.adapters.kubelet.checkpoint import (
    Checkpoint,
    CheckpointEntry,
    CheckpointFile,
)
from gpushare.adapters.kubelet.plugin_response import PluginResponse, plugin_response
from gpushare.contract import RESOURCE_MEM
from gpushare.deviceplugin.core.allocations import AllocateSnapshot
from gpushare.deviceplugin.core.reconcile import ServedContainer
from gpushare.deviceplugin.core.response import named_gpus
from gpushare.deviceplugin.core.whole_gpus import Devices, devices_by_pod
from gpushare.deviceplugin.node.state import KubeletAllocations, NodeState
from gpushare.errors import KubeletError
from gpushare.isolation.layout import isolation_mounts
from gpushare.model.cards import Card
from gpushare.model.devices import ContainerDevices, is_gpu_uuid
from gpushare.model.quantity import parse_small
from gpushare.runtime.reasons import Reasons

log = structlog.get_logger()


class CheckpointReader:
    """Reads the checkpoint file when it has changed. An unreadable file is logged once."""

    def __init__(self, path: Path) -> None:
        self._file = CheckpointFile(path)
        self._known: tuple[Checkpoint | None, tuple[Card, ...]] = (None, ())
        self._allocations: KubeletAllocations | None = None
        self._problems = Reasons()

    def __call__(self, cards: tuple[Card, ...]) -> KubeletAllocations | None:
        """The allocations in the checkpoint on these GPUs; None if it cannot be read."""
        try:
            latest = self._file.latest()
        except KubeletError as error:
            if self._problems.is_new(str(error)):
                log.warning("checkpoint_unreadable", reason=str(error))
            return None
        self._problems.end()
        known, self._known = self._known, (latest, cards)
        # The GPUs too: the Aliyun plugin names them by index, and a GPU may appear later.
        if known != self._known or self._allocations is None:
            self._allocations = allocations_in(*self._known)
        return self._allocations


ReadCheckpoint = Callable[[tuple[Card, ...]], KubeletAllocations | None]
"""Returns the content of the kubelet's checkpoint, given the GPUs; None if it cannot be read."""


class Observer:
    """Keeps ``node_state`` in step with the kubelet's checkpoint."""

    def __init__(self, node_state: NodeState, read_checkpoint: ReadCheckpoint) -> None:
        self.node_state = node_state
        self._read_checkpoint = read_checkpoint

    def observe(self) -> AllocateSnapshot:
        """The node as it is now, joined with the checkpoint as it is now."""
        self.node_state.apply_checkpoint(self._read_checkpoint(self.node_state.allocations.cards))
        return self.node_state.snapshot()


def allocations_in(checkpoint: Checkpoint | None, cards: tuple[Card, ...]) -> KubeletAllocations | None:
    """Containers with gpu-mem devices and pods with whole GPUs; None without a checkpoint file."""
    if checkpoint is None:
        return None
    return KubeletAllocations(
        tuple(_served(entry, cards) for entry in checkpoint if entry.resource == RESOURCE_MEM and entry.ids),
        devices_by_pod((entry.pod_uid, entry.resource, entry.ids) for entry in checkpoint),
    )


def _served(entry: CheckpointEntry, cards: tuple[Card, ...]) -> ServedContainer:
    response = plugin_response(entry)
    return ServedContainer(
        entry.pod_uid,
        entry.container,
        min(entry.ids),
        len(entry.ids),
        _uuids(response, cards),
        isolation_mounts(response.mounts),
    )


def whole_gpus_by_name(found: Iterable[ContainerDevices], uids: Mapping[str, str]) -> dict[str, Devices]:
    """Whole GPUs by pod UID, from the PodResources API; ``uids`` are the pods on this node by full name."""
    pods = ((uids.get(f"{each.namespace}/{each.pod}"), each) for each in found)
    return devices_by_pod((uid, each.resource, each.ids) for uid, each in pods if uid)


def _uuids(response: PluginResponse, cards: tuple[Card, ...]) -> tuple[str, ...]:
    """GPUs in the recorded Allocate response: by UUID, or by index if the Aliyun plugin returned it.

    A UUID may be that of a GPU that is absent now. Empty if a name is none of a GPU.
    """
    names = named_gpus(response.envs, response.mounts, response.cdi_devices)
    by_index: dict[int | None, str] = {card.index: card.uuid for card in cards}
    known = {card.uuid for card in cards}
    uuids = tuple(
        name if name in known or is_gpu_uuid(name) else by_index.get(parse_small(name), "") for name in names
    )
    return uuids if all(uuids) else ()
