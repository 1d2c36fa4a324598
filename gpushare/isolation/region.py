"""The region that the processes of a container share: how much each of them uses of each card.

What belongs here: its layout, an empty one, how it is read, and what the node agent writes into it. What
does not: opening the file, and the lock, which only the library takes (``native/region.c``). A container's
processes can write anything into their region: whoever reads it compares it with what NVML says.

The agent's words are the agent's alone and are written one by one, by ``pwrite`` and without the lock: a
mapping of a file that a tenant can cut would end the agent.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpushare.errors import SourceError

MAGIC: Final = 0x6E6F696765527047
VERSION: Final = 2
MAX_CARDS: Final = 16
SLOTS: Final = 256
_HEADER: Final = struct.Struct("<QIIQ64x")  # magic, version, bytes, sequence; the lock
_CARD: Final = struct.Struct("<48sQQQQ")  # UUID, limit, used, peak, refusals
_LAUNCH: Final = struct.Struct("<QQQ40x")  # the agent's: rate, time of its sample; then spent and the rest
_SLOT: Final = struct.Struct(f"<QQ{MAX_CARDS}Q{MAX_CARDS}Q{MAX_CARDS}I")
"""Process number, start; of each card: used, what a context is charged with, contexts."""
_MEASURE: Final = struct.Struct(f"<QQ{MAX_CARDS}Q")
"""The agent's: process number, start, bytes that a context takes of each card."""
_WORD: Final = struct.Struct("<Q")
_SEQUENCE: Final = struct.Struct("<16xQ")
_CARDS_AT: Final = _HEADER.size
_LAUNCHES_AT: Final = _CARDS_AT + MAX_CARDS * _CARD.size
_SLOTS_AT: Final = _LAUNCHES_AT + MAX_CARDS * _LAUNCH.size
_MEASURES_AT: Final = _SLOTS_AT + SLOTS * _SLOT.size
SIZE: Final = _MEASURES_AT + SLOTS * _MEASURE.size
_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True)
class CardUse:
    """A card in a region: bytes, and ``refusals`` as a count.

    For launch control the agent writes ``rate``, tokens a second, 0 before its first sample, and
    ``sampled_ns``, the time of its sample by CLOCK_MONOTONIC. ``spent`` are the tokens of all launches.
    """

    uuid: str
    limit: int
    used: int
    peak: int
    refusals: int
    rate: int = 0
    sampled_ns: int = 0
    spent: int = 0


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """A process by its number inside the container; ``start`` is in clock ticks since boot.

    For each card: ``used`` are the bytes it is charged with, of which each of its ``contexts`` takes
    ``context_bytes``. ``slot`` is its place in the region.
    """

    pid: int
    start: int
    used: tuple[int, ...]
    contexts: tuple[int, ...] = ()
    context_bytes: tuple[int, ...] = ()
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """What a region said at one moment."""

    cards: tuple[CardUse, ...]
    processes: tuple[ProcessUse, ...]


class Write(NamedTuple):
    """Bytes that the agent writes into a region's file by one ``pwrite``."""

    at: int
    content: bytes


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


def rate_writes(card: int, rate: int, now_ns: int) -> tuple[Write, ...]:
    """What the agent writes, in this order, to set the launch rate of a card, by its place in the limit file.

    ``rate`` is in tokens a second, ``now_ns`` the time of the sample by CLOCK_MONOTONIC.
    """
    at = _LAUNCHES_AT + card * _LAUNCH.size
    return Write(at, _WORD.pack(rate)), Write(at + _WORD.size, _WORD.pack(now_ns))


def context_writes(process: ProcessUse, measured: Sequence[int]) -> tuple[Write, ...]:
    """What the agent writes, in this order, to say what a context of ``process`` takes, in bytes.

    ``measured`` has a number for each card from the first one on, 0 for one that was not measured. The
    process's number comes last: until then the library sees that the rest is not of this process.
    """
    at = _MEASURES_AT + process.slot * _MEASURE.size
    content = _MEASURE.pack(0, process.start, *measured, *[0] * (MAX_CARDS - len(measured)))
    return Write(at, content), Write(at, _WORD.pack(process.pid))


def _cards(content: bytes) -> tuple[CardUse, ...]:
    found = _CARD.iter_unpack(content[_CARDS_AT:_LAUNCHES_AT])
    launches = _LAUNCH.iter_unpack(content[_LAUNCHES_AT:_SLOTS_AT])
    return tuple(
        CardUse(name.rstrip(b"\0").decode("ascii", "replace"), *numbers, *launch)
        for (name, *numbers), launch in zip(found, launches, strict=True)
        if name.rstrip(b"\0")
    )


def _processes(content: bytes) -> tuple[ProcessUse, ...]:
    places = ((slot, _SLOTS_AT + slot * _SLOT.size) for slot in range(SLOTS))
    return tuple(
        _process(slot, *_SLOT.unpack_from(content, at))
        for slot, at in places
        if _WORD.unpack_from(content, at) != (0,)
    )


def _process(slot: int, pid: int, start: int, *numbers: int) -> ProcessUse:
    used, each, contexts = (numbers[i * MAX_CARDS : (i + 1) * MAX_CARDS] for i in range(3))
    return ProcessUse(pid, start, used, contexts, each, slot)
