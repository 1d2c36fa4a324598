"""The region: a file shared by the processes of a container, with the memory use of each on each GPU.

Defines the layout, an empty region, parsing, and the writes of the node agent. Only the library takes the
lock in the region (``native/mapping.c``). A container's processes can write anything into their region, so
readers compare it with NVML.

Some words are written by the agent only. It writes them one by one with ``pwrite`` and without the lock; it
does not map the file, because a container can truncate it and a mapped access would then kill the agent.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpushare.errors import SourceError
from gpushare.isolation.limits import MAX_CARDS

MAGIC: Final = 0x6E6F696765527047
VERSION: Final = 2
SLOTS: Final = 256
_HEADER: Final = struct.Struct("<QIIQ64x")  # magic, version, bytes, sequence; the lock
_CARD: Final = struct.Struct("<48sQQQQ")  # UUID, limit, used, peak, refusals
_LAUNCH: Final = struct.Struct("<QQQ40x")  # by the agent: rate, time of its sample; then spent and the rest
_SLOT: Final = struct.Struct(f"<QQ{MAX_CARDS}Q{MAX_CARDS}Q{MAX_CARDS}I")
"""PID, start; for each GPU: used bytes, bytes charged per context, contexts."""
_MEASURE: Final = struct.Struct(f"<QQ{MAX_CARDS}Q")
"""Written by the agent: PID, start, bytes of a context on each GPU."""
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
    """A GPU in a region: limit, use and peak in bytes, and ``refusals``, the number of refused allocations.

    The agent writes ``rate``, the launch rate in tokens per second (0 before its first sample), and
    ``sampled_ns``, the time of that sample by CLOCK_MONOTONIC. ``spent`` are the tokens of all launches.
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
    """A process by its PID in the container; ``start`` is in clock ticks since boot.

    For each GPU, ``used`` are the bytes charged to it, of which each of its ``contexts`` takes
    ``context_bytes``. ``slot`` is its index in the region.
    """

    pid: int
    start: int
    used: tuple[int, ...]
    contexts: tuple[int, ...] = ()
    context_bytes: tuple[int, ...] = ()
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """Content of a region at one moment."""

    cards: tuple[CardUse, ...]
    processes: tuple[ProcessUse, ...]


class Write(NamedTuple):
    """Bytes that the agent writes into a region with one ``pwrite`` at offset ``at``."""

    at: int
    content: bytes


def empty() -> bytes:
    """An uninitialised region; the first process of the container initialises it."""
    return bytes(SIZE)


def read(read_bytes: Callable[[], bytes]) -> Region | None:
    """The parsed region, or None if no process has initialised it.

    ``read_bytes`` returns the current bytes of the region; it is called until they are consistent. Raises
    SourceError if the bytes are not a region, or change in all attempts.
    """
    for _ in range(_ATTEMPTS):
        before, content, after = read_bytes(), read_bytes(), read_bytes()
        if len(content) != SIZE:
            raise SourceError(f"the region has {len(content)} bytes instead of {SIZE}")
        if _is_consistent(before, content, after):
            return _parse(content)
    raise SourceError(f"the region changed during each of {_ATTEMPTS} attempts to read it")


def _is_consistent(before: bytes, content: bytes, after: bytes) -> bool:
    if not len(before) == len(content) == len(after):
        return False
    first, last = (int(_SEQUENCE.unpack_from(view)[0]) for view in (before, after))
    return first == last and first % 2 == 0


def _parse(content: bytes) -> Region | None:
    magic, version, size, _ = _HEADER.unpack_from(content)
    if magic == 0:
        return None
    if (magic, version, size) != (MAGIC, VERSION, SIZE):
        raise SourceError(f"not a region of version {VERSION}")
    return Region(_cards(content), _processes(content))


def rate_writes(card: int, rate: int, now_ns: int) -> tuple[Write, ...]:
    """The ordered writes that set the launch rate of a GPU; ``card`` is its index in the limit file.

    ``rate`` is in tokens per second, ``now_ns`` the time of the sample by CLOCK_MONOTONIC.
    """
    at = _LAUNCHES_AT + card * _LAUNCH.size
    return Write(at, _WORD.pack(rate)), Write(at + _WORD.size, _WORD.pack(now_ns))


def context_writes(process: ProcessUse, measured: Sequence[int]) -> tuple[Write, ...]:
    """The ordered writes that set the measured size of a context of ``process``.

    ``measured`` has the bytes for each GPU from the first one on, 0 for a GPU that was not measured. The PID
    is written last: until then the library ignores the other values.
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
    offsets = ((slot, _SLOTS_AT + slot * _SLOT.size) for slot in range(SLOTS))
    return tuple(
        _process(slot, *_SLOT.unpack_from(content, at))
        for slot, at in offsets
        if _WORD.unpack_from(content, at) != (0,)
    )


def _process(slot: int, pid: int, start: int, *numbers: int) -> ProcessUse:
    used, each, contexts = (numbers[i * MAX_CARDS : (i + 1) * MAX_CARDS] for i in range(3))
    return ProcessUse(pid, start, used, contexts, each, slot)
