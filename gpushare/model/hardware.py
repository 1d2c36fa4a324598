"""GPUs as the driver describes them, independent of sharing.

Adapters fill these in. A value that the driver does not report is None, never zero and never a guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU. ``mib`` is the memory that can be allocated: total without the driver's reserve.

    ``index`` is NVML's, ``minor`` the number in ``/dev/nvidia<minor>``, ``pci`` the full bus id. ``brand`` is
    a value of ``nvmlBrandType_t``.
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
    brand: int | None = None


class Link(StrEnum):
    """The connection of two GPUs, nearest first."""

    NVLINK = "nvlink"
    BOARD = "same board"
    SWITCH = "one PCIe switch"
    SWITCHES = "several PCIe switches"
    HOST_BRIDGE = "one host bridge"
    NUMA_NODE = "one NUMA node"
    SYSTEM = "between NUMA nodes"


@dataclass(frozen=True, slots=True)
class Inventory:
    """All GPUs of a machine. ``links`` maps two GPU indices, the lower first, to their best link.

    ``unreadable`` maps the indices of GPUs that the driver cannot describe to its reason.
    """

    driver: str
    cuda: str | None
    gpus: tuple[Gpu, ...]
    links: Mapping[tuple[int, int], Link] = field(default_factory=dict)
    unreadable: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """An XID error that the driver reported. ``uuid`` is None if the driver did not report the GPU."""

    uuid: str | None
    xid: int
