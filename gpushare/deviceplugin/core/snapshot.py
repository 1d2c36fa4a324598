"""What an Allocate call is decided on: the node at one moment, as record, API and kubelet show it. Pure."""

from dataclasses import dataclass

from gpushare.deviceplugin.core.allocations import Allocations, Key


@dataclass(frozen=True, slots=True)
class AllocateSnapshot:
    """The node at one moment.

    ``done`` are the containers that have their devices: those in the kubelet's checkpoint without stale
    entries. While it cannot be read (``readable`` is False), these are those with an allocation, unless the
    kubelet has forgotten it before.
    ``node_read`` is whether the labels of the node, and so its mode, are known. ``terminated`` are pods with
    GPUs that are finished or deleted, and ``unlisted`` GPU pods that only the kubelet knows, by UID.
    """

    allocations: Allocations
    done: frozenset[Key] = frozenset()
    readable: bool = True
    node_read: bool = True
    terminated: frozenset[str] = frozenset()
    unlisted: frozenset[str] = frozenset()
