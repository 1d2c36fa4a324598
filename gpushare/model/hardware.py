"""Cards as their driver describes them, before anything is decided about sharing them.

Adapters fill these in. What the driver does not say is None: never a zero and never a guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical card. ``mib`` is what can be given out of it: total without the driver's reserve.

    ``index`` is NVML's, ``minor`` the number in ``/dev/nvidia<minor>``, ``pci`` the full bus id.
    """

    index: int
    uuid: str
    model: str
    mib: int
    minor: int | None = None
    pci: str = ""
    numa: int | None = None
    mig: bool | None = None
    compute_mode: str | None = None


class Link(StrEnum):
    """How two cards reach each other, nearest first."""

    NVLINK = "nvlink"
    BOARD = "same board"
    SWITCH = "one PCIe switch"
    SWITCHES = "several PCIe switches"
    HOST_BRIDGE = "one host bridge"
    NUMA_NODE = "one NUMA node"
    SYSTEM = "between NUMA nodes"


@dataclass(frozen=True, slots=True)
class Inventory:
    """All cards of a machine. ``links`` maps two card indices, the lower first, to their best link.

    ``unreadable`` names the cards that the driver knows and cannot describe, with its reason.
    """

    driver: str
    cuda: str | None
    gpus: tuple[Gpu, ...]
    links: Mapping[tuple[int, int], Link] = field(default_factory=dict)
    unreadable: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something the driver reported. ``uuid`` is None where it did not say which card."""

    uuid: str | None
    xid: int
