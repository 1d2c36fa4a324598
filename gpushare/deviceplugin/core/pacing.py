"""What the agent writes into the region of a container: rates of launches, and sizes of contexts. Pure.

What belongs here: what follows from the driver's word and the region's. What does not: asking the driver,
finding out whose processes they are, and files (``pacer``). What a region says its container may have made
up: such numbers can change what is written into that region, and nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpushare.deviceplugin.core.limits import is_compute_share
from gpushare.errors import SourceError
from gpushare.isolation import regulator
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import CardUse, ProcessUse, Region, Write, context_writes, rate_writes
from gpushare.model.readings import ProcessReading

_ALL: Final = 100
_HIGHEST_RATE: Final = 1 << 62
_LARGEST_CONTEXT: Final = 2 << 30
"""What is more between the driver's word and the region's is something else than contexts."""

Seen = Mapping[int, ProcessReading]
"""A container's processes on one card, by the numbers by which they call themselves."""
Slot = tuple[int, int, int]
"""A process in a region: its place there, its number, its start."""


@dataclass(frozen=True, slots=True)
class CardRate:
    """One card at the last look: when that was, the tokens spent until then, and the rate, 0 for none.

    ``told`` is whether the driver told how busy the container's processes were.
    """

    at_ns: int
    spent: int
    rate: int = 0
    told: bool = True


class ProcessBytes(NamedTuple):
    """Bytes of a process on a card, as the driver has them and as the region does; its contexts."""

    shown: int | None
    counted: int
    contexts: int
    each: int


@dataclass(frozen=True, slots=True)
class Contexts:
    """One process at the last look, by card: the facts, and the size of a context as it was written."""

    facts: tuple[ProcessBytes, ...]
    written: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContainerPacing:
    """One container at the last look: its cards in the order of its limits, and its processes."""

    paces: tuple[CardRate, ...] = ()
    contexts: Mapping[Slot, Contexts] = field(default_factory=dict)


def look(
    limits: Sequence[CardLimit],
    region: Region,
    seen: Sequence[Seen | None],
    now_ns: int,
    before: ContainerPacing,
) -> tuple[ContainerPacing, tuple[Write, ...]]:
    """The account of a container after a look, and what to write.

    ``seen`` are its processes on each card of its limits, None where the card did not tell; ``now_ns`` is
    when the region was read, by CLOCK_MONOTONIC. Raises SourceError for a region of other cards.
    """
    if not region.cards:
        return ContainerPacing(), ()
    if [use.uuid for use in region.cards] != [limit.uuid for limit in limits]:
        raise SourceError("the region has not the cards of the limit in their order")
    old = before.paces or [None] * len(limits)
    paces = tuple(
        _pace(limit, use, on, now_ns, last)
        for limit, use, on, last in zip(limits, region.cards, seen, old, strict=True)
    )
    contexts = {
        _slot(process): _contexts(process, seen, before.contexts.get(_slot(process)))
        for process in region.processes
    }
    writes = (*_context_writes(region, contexts, before), *_rate_writes(limits, paces))
    return ContainerPacing(paces, contexts), writes


def unseen(limits: Sequence[CardLimit], account: ContainerPacing) -> bool:
    """Whether a part of some card's time could not be measured at the last look."""
    return any(
        is_compute_share(limit.core_percent) and not pace.told
        for limit, pace in zip(limits, account.paces, strict=False)
    )


def _pace(limit: CardLimit, use: CardUse, on: Seen | None, now_ns: int, before: CardRate | None) -> CardRate:
    """Of a container without a process on the card nothing was measured: its rate stays."""
    loads = [None] if on is None else [each.load for each in on.values()]
    told = None not in loads
    if before is None:
        return CardRate(now_ns, use.spent, told=told)
    rate = before.rate
    if loads and told and is_compute_share(limit.core_percent):
        elapsed_ns = now_ns - before.at_ns
        busy = min(_ALL, sum(each.sm for each in loads if each))
        sample = regulator.LaunchSample(elapsed_ns, elapsed_ns * busy // _ALL, use.spent - before.spent)
        rate = min(_HIGHEST_RATE, regulator.rate(limit.core_percent, sample, before.rate))
    return CardRate(now_ns, use.spent, rate, told)


def _rate_writes(limits: Sequence[CardLimit], paces: Sequence[CardRate]) -> Iterator[Write]:
    for card, (limit, pace) in enumerate(zip(limits, paces, strict=True)):
        if is_compute_share(limit.core_percent) and pace.rate and pace.told:
            yield from rate_writes(card, pace.rate, pace.at_ns)


def _slot(process: ProcessUse) -> Slot:
    return process.slot, process.pid, process.start


def _contexts(process: ProcessUse, seen: Sequence[Seen | None], before: Contexts | None) -> Contexts:
    """The driver and the region are not read at one moment: what both said twice is settled."""
    facts = tuple(_facts(process, card, on) for card, on in enumerate(seen))
    if before is None:
        return Contexts(facts, (0,) * len(facts))
    written = tuple(
        (_size(new) if new == old else 0) or size
        for new, old, size in zip(facts, before.facts, before.written, strict=True)
    )
    return Contexts(facts, written)


def _facts(process: ProcessUse, card: int, on: Seen | None) -> ProcessBytes:
    shown = on[process.pid].used_bytes if on and process.pid in on else None
    return ProcessBytes(shown, process.used[card], process.contexts[card], process.context_bytes[card])


def _size(facts: ProcessBytes) -> int:
    """Bytes of a context; 0 where that cannot be told."""
    own = facts.counted - facts.contexts * facts.each
    if facts.shown is None or facts.contexts <= 0 or own < 0:
        return 0
    size = (facts.shown - own) // facts.contexts
    return size if 0 < size <= _LARGEST_CONTEXT else 0


def _context_writes(
    region: Region, contexts: Mapping[Slot, Contexts], before: ContainerPacing
) -> Iterator[Write]:
    for process in region.processes:
        slot = _slot(process)
        written, last = contexts[slot].written, before.contexts.get(slot)
        if last and written != last.written:
            yield from context_writes(process, written)
