"""Pods that have whole GPUs from another device plugin, and the cards that are full because of them. Pure.

NVIDIA's plugin gives whole cards to containers (``nvidia.com/gpu``). When it is taken off a node that is to
share its cards, these containers run on, and no gpu-mem tells of them: their cards are full until their
pods are gone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpushare.contract import MANAGED_RESOURCES
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.model.cards import Card, in_use_as_whole
from gpushare.model.devices import is_gpu_uuid, is_whole_gpu_resource, uuid_of_gpu
from gpushare.model.quantity import parse_small

Devices = frozenset[str]
"""Device IDs as another plugin made them up."""


@dataclass(frozen=True, slots=True)
class WholeGpus:
    """Pods of a node with whole GPUs, by the kubelet's UID.

    ``devices`` is what the kubelet has recorded, ``names`` are full names of pods, ``living`` the pods that
    the API shows, ``gone`` those that are gone for good, which the kubelet's record may still name.
    """

    devices: Mapping[str, Devices] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    living: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()

    @property
    def holders(self) -> frozenset[str]:
        """The pods whose cards are full."""
        return frozenset(self.devices.keys() - self.gone)

    @property
    def unseen(self) -> frozenset[str]:
        """Those among them that the API does not show."""
        return self.holders - self.living

    def name_of(self, uid: str) -> str:
        """The pod's full name, or its UID where the API has never shown it."""
        return self.names.get(uid) or f"pod UID {uid}"

    def recorded(self, found: Mapping[str, Devices]) -> "WholeGpus":
        """With what the kubelet has recorded now.

        A pod that the record no longer names keeps its cards until it is gone: the record may be lost.
        """
        devices = {uid: ids for uid, ids in self.devices.items() if uid in self.holders} | dict(found)
        return replace(self, devices=devices, gone=self.gone & devices.keys())

    def shown(self, pods: Mapping[str, str]) -> "WholeGpus":
        """With the pods that the API shows and that have not finished: UID → full name."""
        names = {uid: name for uid, name in self.names.items() if uid in self.devices}
        return replace(self, names=names | dict(pods), living=frozenset(pods), gone=self.gone - pods.keys())

    def let_go(self, uids: frozenset[str]) -> "WholeGpus":
        """With these pods gone, except those that the API shows."""
        return replace(self, gone=self.gone | (self.devices.keys() & uids) - self.living)


def devices_by_pod(held: Iterable[tuple[str, str, Devices]]) -> dict[str, Devices]:
    """Whole GPUs by pod, from triples of pod, resource and device IDs.

    A plugin may give out cards under any name; where the name tells nothing, UUIDs of cards count.
    """
    found: dict[str, Devices] = {}
    for pod, resource, ids in held:
        known = is_whole_gpu_resource(resource)
        cards = frozenset(each for each in ids if known or is_gpu_uuid(uuid_of_gpu(each)))
        if cards and resource not in MANAGED_RESOURCES:
            found[pod] = found.get(pod, frozenset()) | cards
    return found


def with_whole_gpus(shared_gpus: SharedGpus, whole: WholeGpus) -> SharedGpus:
    """The line-up with the cards closed that pods have as whole GPUs.

    A device whose card is not known closes every card. The kubelet is not told: it would turn away pods
    that share such a card already when it starts anew.
    """
    pods = _pods_by_card(shared_gpus, whole)
    in_use = {card.index for card in shared_gpus.cards if card.healthy and pods[card.index]}
    cards = tuple(_full(card, pods[card.index]) for card in shared_gpus.cards)
    return replace(shared_gpus, cards=cards, cordoned=shared_gpus.cordoned | in_use)


def _full(card: Card, pods: tuple[str, ...]) -> Card:
    return replace(card, healthy=False, whole_gpu_pods=pods) if pods else card


def _pods_by_card(shared_gpus: SharedGpus, whole: WholeGpus) -> dict[int, tuple[str, ...]]:
    pods: dict[int, set[str]] = {card.index: set() for card in shared_gpus.cards}
    for uid in whole.holders:
        for identifier in whole.devices[uid]:
            located = cards_of(identifier, shared_gpus)
            for index in pods if located is None else located:
                pods[index].add(whole.name_of(uid))
    return {index: tuple(sorted(names)) for index, names in pods.items()}


def cards_of(identifier: str, shared_gpus: SharedGpus) -> frozenset[int] | None:
    """The shared cards that a device is on, by index; none where it is on another card.

    None where that is not known, and so on any card.
    """
    name = uuid_of_gpu(identifier)
    if name.startswith("MIG-"):
        return _cards_of_mig(name, shared_gpus)
    by_name = {card.uuid: card.index for card in shared_gpus.cards} | {
        str(card.index): card.index for card in shared_gpus.cards
    }
    if name in by_name:
        return frozenset({by_name[name]})
    elsewhere = is_gpu_uuid(name) or parse_small(name) in {each.index for each in shared_gpus.left_out}
    return frozenset() if elsewhere else None


def _cards_of_mig(name: str, shared_gpus: SharedGpus) -> frozenset[int] | None:
    """A MIG device is on a card in MIG mode, which is not shared.

    Drivers before 470 put its card's UUID into its name, ``MIG-GPU-<UUID>/<instance>/<instance>``.
    """
    parent = name.removeprefix("MIG-").partition("/")[0]
    by_uuid = {card.uuid: card.index for card in shared_gpus.cards}
    if parent in by_uuid:
        return frozenset({by_uuid[parent]})
    elsewhere = is_gpu_uuid(parent) or any(each.mig for each in shared_gpus.left_out)
    return frozenset() if elsewhere else None


def notices(shared_gpus: SharedGpus, whole: WholeGpus) -> Iterator[str]:
    """What an administrator should know, one line each: cards that are full, and devices without a card."""
    for card in shared_gpus.cards:
        if reason := in_use_as_whole(card):
            yield f"card {card.index} takes no pods {reason}"
    for uid in sorted(whole.holders):
        unknown = sorted(each for each in whole.devices[uid] if cards_of(each, shared_gpus) is None)
        if unknown:
            named = ", ".join(map(repr, unknown))
            yield f"{whole.name_of(uid)} has the device {named} of another plugin, which may be on any card"
