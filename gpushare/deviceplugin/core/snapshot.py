"""What an Allocate call is decided on: the node at one moment, as record, API and kubelet show it. Pure."""

from dataclasses import dataclass

from gpushare.deviceplugin.core.allocations import Allocations, Key


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The node at the moment of a call.

    ``done`` are the containers that have their devices: those in the kubelet's checkpoint without stale
    entries, or those with an allocation while the checkpoint cannot be read (``readable`` is False).
    """

    allocations: Allocations
    done: frozenset[Key] = frozenset()
    readable: bool = True
