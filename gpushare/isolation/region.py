"""The region: a file shared by the processes of a container, with the memory use of each on each GPU.

Defines an empty region, parsing, and the writes of the node agent; ``region_layout`` has the layouts. Only
the library takes the lock in the region (``native/mapping.c``). A container's processes can write anything
into their region, so readers compare it with NVML.

Some words are written by the agent only. It writes them one by one with ``pwrite`` and without the lock; it
does not map the file, because a container can truncate it and a mapped access would then kill the agent.
"""

import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from gpushare.errors import SourceError
from gpushare.isolation.region_layout import (
    CARD,
    HEADER,
    KINDS,
    LAUNCH,
    LAYOUT,
    PRICES_AT,
    SIZE,
    RegionLayout,
    measure_struct,
    slot_struct,
)

_WORD: Final = struct.Struct("<Q")
_SEQUENCE: Final = struct.Struct("<16xQ")
_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True)
class CardUse:
    """A GPU in a region: limit, use and peak in bytes, and ``refusals``, the number of refused allocations.

    ``refused`` is the largest size of a refused allocation, and ``needed`` the smallest limit that admits all
    refused ones, each at its moment: its size and what was in use. Both are 0 without a refusal, and leave
    out allocations that the GPU itself could not hold.

    The agent writes ``rate``, the launch rate in tokens per second (0 before its first sample),
    ``sampled_ns``, the time of that sample by CLOCK_MONOTONIC, and ``prices``, the tokens of a unit of work,
    in 2^-20, by kind of launch. ``spent`` are the tokens of all launches, ``work`` is their work by kind.
    """

    uuid: str
    limit: int
    used: int
    peak: int
    refusals: int
    refused: int = 0
    needed: int = 0
    rate: int = 0
    sampled_ns: int = 0
    spent: int = 0
    prices: tuple[int, ...] = (0,) * KINDS
    work: tuple[int, ...] = (0,) * KINDS


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """A process by its PID in the container; ``start`` is in clock ticks since boot.

    For each GPU, ``used`` are the bytes charged to it, of which each of its ``contexts`` takes
    ``context_bytes``. They include ``managed``, the bytes of managed memory, which the driver does not report
    for a process; empty is none. ``slot`` is its index in the region.
    """

    pid: int
    start: int
    used: tuple[int, ...]
    contexts: tuple[int, ...] = ()
    context_bytes: tuple[int, ...] = ()
    slot: int = 0
    managed: tuple[int, ...] = ()

    def shown(self, card: int) -> int:
        """The bytes of ``used`` on a GPU that the driver reports for a process too, if it counts all."""
        return self.used[card] - (self.managed[card] if self.managed else 0)


@dataclass(frozen=True, slots=True)
class Region:
    """Content of a region at one moment.

    ``crowded`` is the number of processes whose requests were refused because no slot was free.
    """

    cards: tuple[CardUse, ...]
    processes: tuple[ProcessUse, ...]
    layout: RegionLayout = LAYOUT
    crowded: int = 0


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
        # Of three readings, the middle one lies between two sequence numbers.
        before, content, after = read_bytes(), read_bytes(), read_bytes()
        layout = RegionLayout.of(content)
        size = layout.size if layout else SIZE
        if len(content) < size:
            raise SourceError(f"the region has {len(content)} bytes instead of {size}")
        if _is_consistent(before, content, after):
            return _parsed(content, layout) if layout else None
    raise SourceError(f"the region changed during each of {_ATTEMPTS} attempts to read it")


def _is_consistent(before: bytes, content: bytes, after: bytes) -> bool:
    if not len(before) == len(content) == len(after):
        return False
    first, last = (int(_SEQUENCE.unpack_from(view)[0]) for view in (before, after))
    # Odd during a write.
    return first == last and first % 2 == 0


def _parsed(content: bytes, layout: RegionLayout) -> Region:
    *_, crowded = HEADER.unpack_from(content)
    return Region(_cards(content, layout), _processes(content, layout), layout, crowded)


def without_ended(region: Region, running: Collection[tuple[int, int]]) -> Region:
    """Return the region without processes that have ended; ``running`` are (PID, start) of the others.

    The library removes them itself, but only when a process of the container needs their memory. The start of
    a process that could not read its own is 0; it counts as running.
    """
    left: list[ProcessUse] = []
    ended: list[ProcessUse] = []
    for each in region.processes:
        # Without a start, a PID that was used again cannot be recognised.
        (ended if each.start and (each.pid, each.start) not in running else left).append(each)
    if not ended:
        return region
    cards = (
        replace(card, used=max(0, card.used - sum(each.used[index] for each in ended)))
        for index, card in enumerate(region.cards)
    )
    return replace(region, cards=tuple(cards), processes=tuple(left))


def rate_writes(card: int, rate: int, now_ns: int, layout: RegionLayout = LAYOUT) -> tuple[Write, ...]:
    """The ordered writes that set the launch rate of a GPU; ``card`` is its index in the limit file.

    ``rate`` is in tokens per second, ``now_ns`` the time of the sample by CLOCK_MONOTONIC.
    """
    at = layout.launches_at + card * layout.launch
    return Write(at, _WORD.pack(rate)), Write(at + _WORD.size, _WORD.pack(now_ns))


def price_write(card: int, prices: Sequence[int], layout: RegionLayout = LAYOUT) -> Write:
    """The write that sets the prices of all kinds of launches on a GPU, in 2^-20 tokens."""
    at = layout.launches_at + card * layout.launch + PRICES_AT
    return Write(at, struct.pack(f"<{KINDS}Q", *prices))


def context_writes(
    process: ProcessUse, measured: Sequence[int], layout: RegionLayout = LAYOUT
) -> tuple[Write, ...]:
    """The ordered writes that set the measured size of a context of ``process``.

    ``measured`` has the bytes for each GPU from the first one on, 0 for a GPU that was not measured. The PID
    is written last: until then the library ignores the other values.
    """
    at = layout.measures_at + process.slot * layout.measure
    sizes = [*measured, *[0] * (layout.cards - len(measured))]
    content = measure_struct(layout.cards).pack(0, process.start, *sizes)
    return Write(at, content), Write(at, _WORD.pack(process.pid))


def _cards(content: bytes, layout: RegionLayout) -> tuple[CardUse, ...]:
    places = (
        (layout.cards_at + i * layout.card, layout.launches_at + i * layout.launch)
        for i in range(layout.cards)
    )
    found = ((CARD.unpack_from(content, at), launches_at) for at, launches_at in places)
    return tuple(
        _card(card, LAUNCH.unpack_from(content, launches_at))
        for card, launches_at in found
        if card[0].rstrip(b"\0")
    )


def _card(found: tuple[Any, ...], launches: tuple[Any, ...]) -> CardUse:
    name, limit, used, peak, refusals, refused, needed = found
    rate, sampled_ns, spent, *kinds = launches
    uuid, prices, work = name.rstrip(b"\0").decode("ascii", "replace"), kinds[:KINDS], kinds[KINDS:]
    counts = (limit, used, peak, refusals, refused, needed)
    return CardUse(uuid, *counts, rate, sampled_ns, spent, tuple(prices), tuple(work))


def _processes(content: bytes, layout: RegionLayout) -> tuple[ProcessUse, ...]:
    offsets = ((slot, layout.slots_at + slot * layout.slot) for slot in range(layout.slots))
    return tuple(
        _process(content, layout, slot, at) for slot, at in offsets if _WORD.unpack_from(content, at) != (0,)
    )


def _process(content: bytes, layout: RegionLayout, slot: int, at: int) -> ProcessUse:
    cards = layout.cards
    pid, start, *numbers = slot_struct(cards).unpack_from(content, at)
    used, each, contexts, managed = (tuple(numbers[i * cards : (i + 1) * cards]) for i in range(4))
    return ProcessUse(pid, start, used, contexts, each, slot, managed)
