"""The region that the processes of a container share: how much each of them uses of each card.

What belongs here: its layout, an empty one, and how it is read. What does not: opening the file, and the
lock, which only the library takes (``native/region.c``). A container's processes can write anything into
their region: whoever reads it compares it with what NVML says.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpushare.errors import SourceError

MAGIC: Final = 0x6E6F696765527047
VERSION: Final = 1
MAX_CARDS: Final = 16
SLOTS: Final = 1024
_HEADER: Final = struct.Struct("<QIIQ64x")  # magic, version, bytes, sequence; the lock
_CARD: Final = struct.Struct("<48sQQQQ")  # UUID, limit, used, peak, refusals
_SLOT: Final = struct.Struct(f"<QQ{MAX_CARDS}Q")  # pid, start, used of each card
_SEQUENCE: Final = struct.Struct("<16xQ")
_CARDS_AT: Final = _HEADER.size
_SLOTS_AT: Final = _CARDS_AT + MAX_CARDS * _CARD.size
SIZE: Final = _SLOTS_AT + SLOTS * _SLOT.size
_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True)
class CardUse:
    """A card in a region; all in bytes, but ``refusals``, which counts."""

    uuid: str
    limit: int
    used: int
    peak: int
    refusals: int


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """A process by its number inside the container; ``start`` is in clock ticks since boot."""

    pid: int
    start: int
    used: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """What a region said at one moment."""

    cards: tuple[CardUse, ...]
    processes: tuple[ProcessUse, ...]


def empty() -> bytes:
    """A region that nobody has begun: the first process of the container does."""
    return bytes(SIZE)


def read(look: Callable[[], bytes]) -> Region | None:
    """What the region says, or None where nobody has begun it.

    ``look`` gives the region's bytes as they are at the moment; it is asked until nobody wrote meanwhile.
    Raises SourceError where the bytes are no region, or are being written all the time.
    """
    for _ in range(_ATTEMPTS):
        before, content, after = look(), look(), look()
        if len(content) != SIZE:
            raise SourceError(f"a region has {SIZE} bytes, this one has {len(content)}")
        if _still(before, content, after):
            return _parsed(content)
    raise SourceError("the region is written all the time")


def _still(before: bytes, content: bytes, after: bytes) -> bool:
    if not len(before) == len(content) == len(after):
        return False
    first, last = (int(_SEQUENCE.unpack_from(view)[0]) for view in (before, after))
    return first == last and first % 2 == 0


def _parsed(content: bytes) -> Region | None:
    magic, version, size, _ = _HEADER.unpack_from(content)
    if magic == 0:
        return None
    if (magic, version, size) != (MAGIC, VERSION, SIZE):
        raise SourceError(f"these bytes are no region of version {VERSION}")
    return Region(_cards(content), _processes(content))


def _cards(content: bytes) -> tuple[CardUse, ...]:
    found = _CARD.iter_unpack(content[_CARDS_AT:_SLOTS_AT])
    return tuple(
        CardUse(name.rstrip(b"\0").decode("ascii", "replace"), *numbers)
        for name, *numbers in found
        if name.rstrip(b"\0")
    )


def _processes(content: bytes) -> tuple[ProcessUse, ...]:
    found = _SLOT.iter_unpack(content[_SLOTS_AT:])
    return tuple(ProcessUse(pid, start, tuple(used)) for pid, start, *used in found if pid)
