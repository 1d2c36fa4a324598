"""What cards and processes on them do at one moment, as the driver tells it.

Adapters fill these in. What the driver does not say is None: never a zero and never a guess. Numbers keep
the driver's units, which their names tell; whoever shows them converts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Load:
    """What a process takes of a card's time, in percent: its multiprocessors, and its memory."""

    sm: int
    memory: int


IDLE = Load(0, 0)


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """A process on a card, by the host's pid."""

    pid: int
    used_bytes: int | None = None
    load: Load | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReading:
    """One card. ``total_bytes`` and ``used_bytes`` leave out the driver's reserve where it tells it.

    ``processes`` is None where the card does not list them; ``xids`` counts the XID errors by number
    since the reader began, ``last_xid`` is 0 before the first, and both are None where none is reported.
    ECC errors are those since the driver was loaded (volatile) and those of the card's life.
    """

    index: int
    uuid: str
    model: str
    minor: int | None = None
    pci: str = ""
    total_bytes: int
    used_bytes: int
    free_bytes: int
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
    """All cards of a machine. ``unreadable`` names those that do not answer, with the driver's reason."""

    cards: tuple[CardReading, ...]
    unreadable: Mapping[int, str] = field(default_factory=dict)


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
