"""Who holds which devices, as the household reads it: from the kubelet's checkpoint, or else from its API."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import structlog

from gpushare.adapters.kubelet.checkpoint import (
    Checkpoint,
    CheckpointEntry,
    CheckpointFile,
    PluginResponse,
    plugin_response,
)
from gpushare.contract import RESOURCE_MEM
from gpushare.deviceplugin.core.allocations import Allocations
from gpushare.deviceplugin.core.reconcile import ServedContainer
from gpushare.deviceplugin.core.response import named_gpus
from gpushare.deviceplugin.core.whole_gpus import Devices, devices_by_pod
from gpushare.deviceplugin.node.state import KubeletRecord
from gpushare.errors import KubeletError
from gpushare.isolation.layout import bound
from gpushare.model.cards import Card
from gpushare.model.devices import ContainerDevices
from gpushare.model.quantity import parse_small

log = structlog.get_logger()


class CheckpointReader:
    """Reads the file when it has changed. A file that cannot be read is told once and counts as none."""

    def __init__(self, path: Path, cards: Callable[[], tuple[Card, ...]]) -> None:
        self._file = CheckpointFile(path)
        self._cards = cards
        self._read: Checkpoint | None = None
        self._recorded: KubeletRecord | None = None
        self._trouble = ""

    def __call__(self) -> KubeletRecord | None:
        """What the checkpoint says; None where it cannot be read."""
        try:
            latest = self._file.latest()
        except KubeletError as error:
            self._tell(str(error))
            return None
        self._trouble = ""
        if latest is not self._read or self._recorded is None:
            self._read, self._recorded = latest, recorded_in(latest, self._cards())
        return self._recorded

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("checkpoint_unreadable", reason=trouble)
        self._trouble = trouble


def recorded_in(checkpoint: Checkpoint | None, cards: tuple[Card, ...]) -> KubeletRecord | None:
    """The containers that hold devices. A missing file is None: nobody knows then."""
    if checkpoint is None:
        return None
    entries = checkpoint.entries
    return KubeletRecord(
        tuple(_served(entry, cards) for entry in entries if entry.resource == RESOURCE_MEM and entry.ids),
        devices_by_pod((entry.pod_uid, entry.resource, entry.ids) for entry in entries),
    )


def _served(entry: CheckpointEntry, cards: tuple[Card, ...]) -> ServedContainer:
    answer = plugin_response(entry)
    return ServedContainer(
        entry.pod_uid,
        entry.container,
        min(entry.ids),
        len(entry.ids),
        _uuids(answer, cards),
        bound(answer.mounts),
    )


def served_by_name(
    found: Iterable[ContainerDevices], allocations: Allocations
) -> tuple[ServedContainer, ...]:
    """The same from the PodResources API, which knows no UIDs: a pod of that name that lives here now."""
    uids = {gpu_pod.pod.full_name: uid for uid, gpu_pod in allocations.gpu_pods.items()}
    return tuple(
        ServedContainer(uid, each.container, min(each.ids), len(each.ids))
        for each in found
        if each.resource == RESOURCE_MEM and each.ids and (uid := uids.get(f"{each.namespace}/{each.pod}"))
    )


def whole_by_name(found: Iterable[ContainerDevices], uids: Mapping[str, str]) -> dict[str, Devices]:
    """Whole GPUs from the PodResources API by pod UID; ``uids`` are those of the pods that live here now."""
    held = ((uids.get(f"{each.namespace}/{each.pod}"), each) for each in found)
    return devices_by_pod((uid, each.resource, each.ids) for uid, each in held if uid)


def _uuids(answer: PluginResponse, cards: tuple[Card, ...]) -> tuple[str, ...]:
    """The cards that the kept answer names, by UUID or, as the original does, by index."""
    names = named_gpus(answer.envs, answer.mounts, answer.cdi_devices)
    by_index: dict[int | None, str] = {card.index: card.uuid for card in cards}
    known = {card.uuid for card in cards}
    uuids = (name if name in known else by_index.get(parse_small(name)) for name in names)
    return tuple(uuid for uuid in uuids if uuid)
