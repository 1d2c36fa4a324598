"""Whole-GPU pods: pods with GPUs from another device plugin, and the GPUs that they make unschedulable. Pure.

NVIDIA's device plugin allocates whole GPUs to containers (``nvidia.com/gpu``). When it is removed from a node
that shares its GPUs from then on, these containers continue, and no ``gpu-mem`` accounts for them. Their GPUs
take no pods until these pods are gone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpushare.contract import MANAGED_RESOURCES
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.model.cards import Card, in_use_as_whole
from gpushare.model.devices import is_gpu_uuid, is_whole_gpu_resource, uuid_of_gpu
from gpushare.model.quantity import parse_small

Devices = frozenset[str]
"""Device IDs of another device plugin."""


@dataclass(frozen=True, slots=True)
class WholeGpus:
    """The whole-GPU pods of a node, by their UIDs in the kubelet.

    ``devices`` are their devices in the kubelet's record, ``names`` full names of pods. ``living`` are the
    pods in the API, ``gone`` the pods that have ended, which may still be in the kubelet's record.
    """

    devices: Mapping[str, Devices] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    living: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()

    @property
    def pods(self) -> frozenset[str]:
        """The pods that use whole GPUs."""
        return frozenset(self.devices.keys() - self.gone)

    @property
    def unseen(self) -> frozenset[str]:
        """Those of ``pods`` that are not in the API."""
        return self.pods - self.living

    def name_of(self, uid: str) -> str:
        """The pod's full name, or its UID if it was never in the API."""
        return self.names.get(uid) or f"pod UID {uid}"

    def with_devices(self, found: Mapping[str, Devices]) -> "WholeGpus":
        """With the devices from the kubelet's record.

        A pod that is missing in the record keeps its GPUs until it is gone: the record may be lost.
        """
        devices = {uid: ids for uid, ids in self.devices.items() if uid in self.pods} | dict(found)
        return replace(self, devices=devices, gone=self.gone & devices.keys())

    def with_pods(self, pods: Mapping[str, str]) -> "WholeGpus":
        """With the unfinished pods in the API: UID → full name."""
        names = {uid: name for uid, name in self.names.items() if uid in self.devices}
        return replace(self, names=names | dict(pods), living=frozenset(pods), gone=self.gone - pods.keys())

    def with_gone(self, uids: frozenset[str]) -> "WholeGpus":
        """With these pods marked as gone, except those in the API."""
        return replace(self, gone=self.gone | (self.devices.keys() & uids) - self.living)


def devices_by_pod(recorded: Iterable[tuple[str, str, Devices]]) -> dict[str, Devices]:
    """The devices of whole-GPU pods by pod, from triples of pod, resource and device IDs.

    A plugin may use any resource name; for an unknown one, the device IDs that are UUIDs of GPUs count.
    """
    found: dict[str, Devices] = {}
    for pod, resource, ids in recorded:
        known = is_whole_gpu_resource(resource)
        cards = frozenset(each for each in ids if known or is_gpu_uuid(uuid_of_gpu(each)))
        if cards and resource not in MANAGED_RESOURCES:
            found[pod] = found.get(pod, frozenset()) | cards
    return found


def with_whole_gpus(shared_gpus: SharedGpus, whole: WholeGpus) -> SharedGpus:
    """The shared GPUs, with those of whole-GPU pods unschedulable.

    A device on an unknown GPU makes every GPU unschedulable. The kubelet sees these GPUs as healthy: after a
    restart it would otherwise reject pods that share such a GPU already.
    """
    pods = _pods_by_card(shared_gpus, whole)
    in_use = {card.index for card in shared_gpus.cards if card.healthy and pods[card.index]}
    cards = tuple(_full(card, pods[card.index]) for card in shared_gpus.cards)
    return replace(shared_gpus, cards=cards, cordoned=shared_gpus.cordoned | in_use)


def _full(card: Card, pods: tuple[str, ...]) -> Card:
    return replace(card, healthy=False, whole_gpu_pods=pods) if pods else card


def _pods_by_card(shared_gpus: SharedGpus, whole: WholeGpus) -> dict[int, tuple[str, ...]]:
    pods: dict[int, set[str]] = {card.index: set() for card in shared_gpus.cards}
    for uid in whole.pods:
        for identifier in whole.devices[uid]:
            located = cards_of(identifier, shared_gpus)
            for index in pods if located is None else located:
                pods[index].add(whole.name_of(uid))
    return {index: tuple(sorted(names)) for index, names in pods.items()}


def cards_of(identifier: str, shared_gpus: SharedGpus) -> frozenset[int] | None:
    """The indices of the shared GPUs that a device is on; empty if it is on another GPU.

    None if that is unknown, so that it may be on any GPU.
    """
    name = uuid_of_gpu(identifier)
    if name.startswith("MIG-"):
        return _cards_of_mig(name, shared_gpus)
    by_name = {card.uuid: card.index for card in shared_gpus.cards} | {
        str(card.index): card.index for card in shared_gpus.cards
    }
    if name in by_name:
        return frozenset({by_name[name]})
    on_other_gpu = is_gpu_uuid(name) or parse_small(name) in {each.index for each in shared_gpus.excluded}
    return frozenset() if on_other_gpu else None


def _cards_of_mig(name: str, shared_gpus: SharedGpus) -> frozenset[int] | None:
    """A MIG device is on a GPU in MIG mode, which is not shared.

    Drivers before 470 use the GPU's UUID in its name, ``MIG-GPU-<UUID>/<instance>/<instance>``.
    """
    parent = name.removeprefix("MIG-").partition("/")[0]
    by_uuid = {card.uuid: card.index for card in shared_gpus.cards}
    if parent in by_uuid:
        return frozenset({by_uuid[parent]})
    on_other_gpu = is_gpu_uuid(parent) or any(each.mig for each in shared_gpus.excluded)
    return frozenset() if on_other_gpu else None


def notices(shared_gpus: SharedGpus, whole: WholeGpus) -> Iterator[str]:
    """Notices for the administrator, one line each: GPUs of whole-GPU pods, and devices on unknown GPUs."""
    for card in shared_gpus.cards:
        if reason := in_use_as_whole(card):
            yield f"GPU {card.index} takes no pods {reason}"
    for uid in sorted(whole.pods):
        unknown = sorted(each for each in whole.devices[uid] if cards_of(each, shared_gpus) is None)
        if unknown:
            named = ", ".join(map(repr, unknown))
            yield f"{whole.name_of(uid)} has the device {named} of another plugin, which may be on any GPU"
