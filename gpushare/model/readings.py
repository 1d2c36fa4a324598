"""Readings of GPUs and their processes at one moment, as the driver reports them.

Adapters fill these in. A value that the driver does not report is None, never zero and never a guess. Numbers
keep the driver's units, which their names contain; callers convert them for display.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Load:
    """Utilization of a GPU by a process, in percent of time: of its SMs, and of its memory."""

    sm: int
    memory: int


IDLE = Load(0, 0)


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """A process on a GPU, by the host's pid.

    ``load`` is ``IDLE`` for a process that the driver leaves out of its samples. ``sampled`` is false if this
    may also mean that the driver has no sample of any process yet.
    """

    pid: int
    used_bytes: int | None = None
    load: Load | None = None
    sampled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReading:
    """One GPU. ``total_bytes`` and ``used_bytes`` exclude the driver's reserve if the driver reports it.

    All bytes are None for a GPU that shares the memory of its host.
    ``processes`` is None if the GPU does not list them; ``xids`` counts the XID errors by number
    since the reader began, ``last_xid`` is 0 before the first, and both are None if the driver reports none.
    ECC errors are those since the driver was loaded (volatile) and those of the GPU's lifetime.
    """

    index: int
    uuid: str
    model: str
    minor: int | None = None
    pci: str = ""
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    reserved_bytes: int | None = None
    gpu_percent: int | None = None
    memory_percent: int | None = None
    encoder_percent: int | None = None
    decoder_percent: int | None = None
    celsius: int | None = None
    memory_celsius: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    energy_mj: int | None = None
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    ecc_corrected_ever: int | None = None
    ecc_uncorrected_ever: int | None = None
    remapped_corrected: int | None = None
    remapped_uncorrected: int | None = None
    remap_failed: bool | None = None
    pcie_tx_kb: int | None = None
    pcie_rx_kb: int | None = None
    pcie_replays: int | None = None
    processes: tuple[ProcessReading, ...] | None = None
    last_xid: int | None = None
    xids: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Readings:
    """All GPUs of a machine. ``unreadable`` maps the indices of those that fail to the driver's reason.

    ``driver`` is its version, ``cuda`` the newest CUDA version that it supports.
    """

    cards: tuple[CardReading, ...]
    unreadable: Mapping[int, str] = field(default_factory=dict)
    driver: str | None = None
    cuda: str | None = None


UNCOUNTED_BYTES: Final = 512 * 1024 * 1024
"""More than the context and the code of one process take beyond the library's estimate for them."""
UNCOUNTED_SHARE: Final = 0.25
"""Of the container's limit."""


def is_clearly_uncounted(uncounted_bytes: int, limit_bytes: int) -> bool:
    """Whether the driver reports clearly more memory of a container than the isolation library counts.

    Small differences are normal: the library estimates contexts until they are measured, and does not count
    code and buffers of the driver. Events of the node agent and alerts use the same thresholds.
    """
    return uncounted_bytes > UNCOUNTED_BYTES and uncounted_bytes > UNCOUNTED_SHARE * limit_bytes
