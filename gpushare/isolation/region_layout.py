"""Layouts of regions: where each part begins, according to the header.

A region has a header, then records: one for each GPU, one with the launches of each GPU, one for each slot,
and one with the measurements of each slot. The library of a container writes the layout that it was built
with, and keeps it as long as the container exists, so readers meet older and newer layouts:

- A layout may add fields to the end of the header or of a record, and more records. Readers use the fields
  that they know.
- Any other change needs another version, and readers then need both.
"""

import struct
from typing import Final, NamedTuple, Self

from gpushare.errors import SourceError
from gpushare.isolation.limits import MAX_CARDS

MAGIC: Final = 0x6E6F696765527047
VERSION: Final = 1
SLOTS: Final = 1024
KINDS: Final = 128
"""Kinds of launches; each has a price."""
MAX_SIZE: Final = 1 << 22
"""No layout is larger, in bytes."""
HEADER: Final = struct.Struct("<QIIQ48x7H2xII")
"""Magic, version, bytes, sequence; the lock; the fields of a Layout; used slots, processes without a slot."""
CARD: Final = struct.Struct("<48sQQQQ8xQQ")
"""UUID, limit, used, peak, refusals; something of the library; largest refused size, needed limit."""
LAUNCH: Final = struct.Struct(f"<QQQ16x{KINDS}Q{KINDS}Q")
"""Rate and time of the last sample, by the agent; spent; prices by the agent, and work, by kind."""
PRICES_AT: Final = 40
"""Offset of the prices in a record of launches."""
_MOST: Final = 4096
"""Bounds the numbers of records, so that a false header cannot make a reader slow."""


def slot_struct(cards: int) -> struct.Struct:
    """A slot: PID, start; for each GPU: used bytes, bytes charged per context, contexts, managed bytes.

    The rest is for the library itself.
    """
    alignment = cards % 2 * 4
    return struct.Struct(f"<QQ{cards}Q{cards}Q{cards}I{alignment}x{cards}Q{8 * cards + 8}x")


def measure_struct(cards: int) -> struct.Struct:
    """Measurements of a slot, written by the agent: PID, start, bytes of a context on each GPU."""
    return struct.Struct(f"<QQ{cards}Q")


class RegionLayout(NamedTuple):
    """Bytes of the header and of one record of each kind; number of GPUs and of slots."""

    header: int
    card: int
    launch: int
    slot: int
    measure: int
    cards: int
    slots: int

    @property
    def cards_at(self) -> int:
        """Offset of the records of GPUs."""
        return self.header

    @property
    def launches_at(self) -> int:
        """Offset of the records of launches."""
        return self.cards_at + self.cards * self.card

    @property
    def slots_at(self) -> int:
        """Offset of the slots."""
        return self.launches_at + self.cards * self.launch

    @property
    def measures_at(self) -> int:
        """Offset of the measurements."""
        return self.slots_at + self.slots * self.slot

    @property
    def size(self) -> int:
        """Bytes of the region."""
        return self.measures_at + self.slots * self.measure

    @classmethod
    def of(cls, content: bytes) -> Self | None:
        """The layout of a region that begins with these bytes; None if it is uninitialised.

        Raises SourceError if the bytes are too few, or no region that can be read.
        """
        if len(content) < HEADER.size:
            raise SourceError(f"the region has {len(content)} bytes instead of {LAYOUT.size}")
        magic, version, size, _, *sizes, _, _ = HEADER.unpack_from(content)
        if magic == 0:
            return None
        if (magic, version) != (MAGIC, VERSION):
            raise SourceError(f"not a region of version {VERSION}")
        layout = cls(*sizes)
        if not layout._is_readable() or size != layout.size:
            raise SourceError(f"not a region of version {VERSION}: its sizes are wrong")
        return layout

    def _is_readable(self) -> bool:
        if not (0 < self.cards <= _MOST and 0 < self.slots <= _MOST and self.size <= MAX_SIZE):
            return False
        known = (HEADER, CARD, LAUNCH, slot_struct(self.cards), measure_struct(self.cards))
        return all(size >= each.size for size, each in zip(self, known, strict=False))


LAYOUT: Final = RegionLayout(
    HEADER.size,
    CARD.size,
    LAUNCH.size,
    slot_struct(MAX_CARDS).size,
    measure_struct(MAX_CARDS).size,
    MAX_CARDS,
    SLOTS,
)
"""The layout of the library that this package builds."""
SIZE: Final = LAYOUT.size
