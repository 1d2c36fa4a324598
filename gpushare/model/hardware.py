"""GPUs as the driver describes them, independent of sharing.

Adapters fill these in. A value that the driver does not report is None, never zero and never a guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

SHARES_HOST_MEMORY: Final = (
    "it shares the memory of its host, so the driver reports no size and no use of its memory"
)
"""Of GB10 (DGX Spark) and Thor: NVML answers NOT_SUPPORTED (known issues of DGX Spark, NVIDIA)."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU. ``mib`` is the memory that can be allocated: total without the driver's reserve.

    ``unified`` is a GPU without memory but that of its host; its ``mib`` is 0, or what the settings declare,
    and ``host_mib`` is the memory of the host, None if that is not known.
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
    unified: bool = False
    host_mib: int | None = None


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
    """An XID error that the driver reported. ``uuid`` is None if the driver did not report the GPU.

    ``xid`` is None if the driver reported that the recovery action of the GPU changed, to any value.
    """

    uuid: str | None
    xid: int | None


class RecoveryAction(IntEnum):
    """What a GPU needs until it can be used again: ``nvmlDeviceGpuRecoveryAction_t`` of driver 615."""

    NONE = 0
    GPU_RESET = 1
    NODE_REBOOT = 2
    DRAIN_P2P = 3
    DRAIN_AND_RESET = 4
    RECOVER_IMEX_DOMAIN = 5
    BUS_RESET = 6
    SYSTEM_REBOOT = 7


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What the driver answers about the health of one GPU.

    ``failure`` is the error of a call that works on every GPU; the other fields are None then. ``recovery``
    is a ``RecoveryAction`` or a number that newer drivers may return. ``uncorrected_ecc`` counts memory
    errors since the driver was loaded or the GPU was reset, ``remap_failed`` is whether a memory row could
    not be replaced by a spare one.
    """

    failure: str | None = None
    recovery: int | None = None
    uncorrected_ecc: int | None = None
    remap_failed: bool | None = None
