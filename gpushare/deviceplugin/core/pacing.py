"""Computes what the agent writes into a container's region: prices, launch rates, context sizes. Pure.

The inputs are readings of the driver and of the region. ``pacer`` reads and writes them. A region is writable
by its container and may contain false values; these affect what is written into the same region, and within
narrow bounds the estimate of a context for later containers.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from gpushare.deviceplugin.core.limits import is_compute_share
from gpushare.deviceplugin.core.prices import Learned, WorkSample, followed_ratio, is_same_work, with_sample
from gpushare.errors import SourceError
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import (
    CardUse,
    ProcessUse,
    Region,
    Write,
    context_writes,
    price_write,
    rate_writes,
)
from gpushare.isolation.region_layout import KINDS
from gpushare.model.card_models import SMALLEST_CONTEXT_MIB
from gpushare.model.readings import ProcessReading

_ALL: Final = 100
_SECOND: Final = 1_000_000_000
_FRACTION: Final = 1 << 20
"""The prices in a region are in this fraction of a token."""
_HIGHEST_PRICE: Final = 1 << 50
_CONTENDED_POLLS: Final = 10
"""``contended`` after a poll with another program: one with a small part is often reported as idle."""
_LARGEST_CONTEXT: Final = 2 << 30
"""A larger difference between driver and region is not due to contexts, in bytes."""
_MIB: Final = 1 << 20
_LEARNED_MIB: Final = range(SMALLEST_CONTEXT_MIB, 1025)
"""Sizes that are used for later containers, too: twice the largest that was seen without code."""

ProcessesByPid = Mapping[int, ProcessReading]
"""A container's processes on one GPU, by their PIDs in the container."""
Slot = tuple[int, int, int]
"""A process in a region: its slot there, its PID, its start time."""


@dataclass(frozen=True, slots=True)
class CardRate:
    """One GPU at the last poll: its time, the work until then by kind, and the launch rate, 0 for none.

    ``measured`` is whether the driver reported the load of the container's processes, ``pids`` are these
    processes, and ``sampled`` is whether the poll showed the GPU time of work. While ``contended`` is not 0,
    the GPU counts as used by other programs; each poll without one of them lowers it.
    """

    at_ns: int
    work: tuple[int, ...]
    rate: int = 0
    measured: bool = True
    pids: frozenset[int] = frozenset()
    learned: Learned = field(default_factory=Learned)
    contended: int = 0
    sampled: bool = False


class ProcessBytes(NamedTuple):
    """Bytes of a process on one GPU by driver and by region; its number of contexts and their size.

    ``counted`` is without managed memory, which the driver does not report for a process.
    """

    driver: int | None
    counted: int
    contexts: int
    per_context: int


@dataclass(frozen=True, slots=True)
class Contexts:
    """One process at the last poll, by GPU: its bytes, and the context sizes that were written."""

    facts: tuple[ProcessBytes, ...]
    written: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContainerPacing:
    """One container at the last poll: its GPUs in the order of its limits, and its processes."""

    rates: tuple[CardRate, ...] = ()
    contexts: Mapping[Slot, Contexts] = field(default_factory=dict)


def pace(
    limits: Sequence[CardLimit],
    region: Region,
    processes: Sequence[ProcessesByPid | None],
    now_ns: int,
    before: ContainerPacing,
    contended: Container[str] = (),
) -> tuple[ContainerPacing, tuple[Write, ...]]:
    """The pacing of a container after a poll, and the writes to its region.

    ``processes`` are its processes on each GPU of its limits, None for a GPU without a reading. ``now_ns`` is
    the time of the region's reading on CLOCK_MONOTONIC. ``contended`` are the UUIDs of the GPUs that other
    programs use now. Raises SourceError for a region with other GPUs.
    """
    if not region.cards:
        return ContainerPacing(), ()
    if [use.uuid for use in region.cards] != [limit.uuid for limit in limits]:
        raise SourceError("the region has other GPUs than the limit, or has them in another order")
    old = before.rates or [None] * len(limits)
    observed = [
        _observed(limit, use, on, now_ns, last, contended=limit.uuid in contended)
        for limit, use, on, last in zip(limits, region.cards, processes, old, strict=True)
    ]
    rates = tuple(_priced(each, [other for other in observed if other.sampled]) for each in observed)
    contexts = {
        _slot(process): _contexts(process, processes, before.contexts.get(_slot(process)))
        for process in region.processes
    }
    writes = (*_context_writes(region, contexts, before), *_rate_writes(limits, region, rates))
    return ContainerPacing(rates, contexts), writes


def context_sizes(limits: Sequence[CardLimit], region: Region, pacing: ContainerPacing) -> Mapping[str, int]:
    """The smallest measured size of a context in MiB, by GPU UUID: the estimate for later containers.

    All contexts on a GPU take the same at first. What is measured grows with the code that a process loads,
    so the smallest size is the closest. It comes from processes that run, so that it follows a new driver.
    A region may contain false values, so sizes outside of the bounds are ignored.
    """
    sizes: dict[str, int] = {}
    for process in region.processes:
        contexts = pacing.contexts.get(_slot(process))
        for uuid, size in _running_sizes(limits, contexts) if contexts else ():
            sizes[uuid] = min(size, sizes.get(uuid, size))
    return sizes


def _running_sizes(limits: Sequence[CardLimit], contexts: Contexts) -> Iterator[tuple[str, int]]:
    """The measured size on each GPU where the process runs, if it is within the bounds, in MiB."""
    for limit, facts, size in zip(limits, contexts.facts, contexts.written, strict=True):
        # Rounded up: an estimate that is too small would promise memory that the context takes.
        mib = -(-size // _MIB)
        if facts.driver is not None and mib in _LEARNED_MIB:
            yield limit.uuid, mib


def unmeasured(limits: Sequence[CardLimit], pacing: ContainerPacing) -> bool:
    """Whether the load on a GPU with a compute share could not be measured at the last poll."""
    return any(
        is_compute_share(limit.core_percent) and not rate.measured
        for limit, rate in zip(limits, pacing.rates, strict=False)
    )


def _observed(
    limit: CardLimit,
    use: CardUse,
    on: ProcessesByPid | None,
    now_ns: int,
    before: CardRate | None,
    *,
    contended: bool,
) -> CardRate:
    """A GPU after a poll; its prices do not follow the sample yet."""
    pids = frozenset(on or ())
    if before is None:
        known = {kind: price / _FRACTION for kind, price in enumerate(use.prices) if price}
        return CardRate(now_ns, use.work, measured=_is_measured(on, {}), pids=pids, learned=Learned(known))
    work = _work_since(use.work, before.work)
    measured = _is_measured(on, work)
    # Kept for some polls: a program with a small part is in few samples.
    polls = _CONTENDED_POLLS if contended else max(0, before.contended - 1)
    learned = before.learned
    if on and measured and is_compute_share(limit.core_percent):
        busy, elapsed_ns = busy_percent(on.values()), now_ns - before.at_ns
        learned = _learned(learned, work, busy, elapsed_ns, contended=polls > 0)
        if pids - before.pids and learned.ratio < 1:
            # Samples of a new process do not show all of its work yet, so they lower no prices.
            learned = before.learned
    # A token is a nanosecond of GPU time. Nothing is paced before there is a price.
    rate = limit.core_percent * _SECOND // _ALL if learned.prices else 0
    sampled = learned.last is not before.learned.last
    return CardRate(now_ns, use.work, rate, measured, pids, learned, polls, sampled=sampled)


def _learned(
    before: Learned, work: dict[int, int], percent: int, elapsed_ns: int, *, contended: bool
) -> Learned:
    if not (work or percent):
        return before
    return with_sample(before, WorkSample(elapsed_ns, elapsed_ns * percent / _ALL, work), contended=contended)


def _priced(rate: CardRate, others: Iterable[CardRate]) -> CardRate:
    """The prices of a GPU after its sample, and the samples of the container's GPUs with the same work."""
    if not rate.sampled:
        return rate
    same = (other.learned.ratio for other in others if is_same_work(rate.learned, other.learned))
    # Ranks that wait for each other look busy: the GPU with the least waiting shows the true price.
    ratio = min(rate.learned.ratio, *same)
    return replace(rate, learned=followed_ratio(rate.learned, ratio, contended=rate.contended > 0))


def _work_since(work: Sequence[int], before: Sequence[int]) -> dict[int, int]:
    """The work of each kind since the last poll; none where the count of a region has gone back."""
    return {kind: new - old for kind, (new, old) in enumerate(zip(work, before, strict=True)) if new > old}


def _is_measured(on: ProcessesByPid | None, work: Mapping[int, int]) -> bool:
    """Whether the driver reported loads; after launches, at least one process must have a sample."""
    if on is None or any(each.load is None for each in on.values()):
        return False
    return not work or not on or any(each.sampled for each in on.values())


def busy_percent(processes: Iterable[ProcessReading]) -> int:
    """The part of a GPU's time that these processes use together."""
    return min(_ALL, sum(each.load.sm for each in processes if each.load))


def _rate_writes(limits: Sequence[CardLimit], region: Region, rates: Sequence[CardRate]) -> Iterator[Write]:
    for card, (limit, rate) in enumerate(zip(limits, rates, strict=True)):
        if is_compute_share(limit.core_percent) and rate.rate and rate.measured:
            yield price_write(card, _prices(rate.learned), region.layout)
            yield from rate_writes(card, rate.rate, rate.at_ns, region.layout)


def _prices(learned: Learned) -> tuple[int, ...]:
    """The prices in the unit of the region, by kind; 0 for a kind without one."""
    found = [0] * KINDS
    for kind, price in learned.prices.items():
        found[kind] = min(max(round(price * _FRACTION), 1), _HIGHEST_PRICE)
    return tuple(found)


def _slot(process: ProcessUse) -> Slot:
    return process.slot, process.pid, process.start


def _contexts(
    process: ProcessUse, processes: Sequence[ProcessesByPid | None], before: Contexts | None
) -> Contexts:
    """Driver and region are not read at the same moment: a value counts once two polls agree on it."""
    facts = tuple(_facts(process, card, on) for card, on in enumerate(processes))
    if before is None:
        return Contexts(facts, (0,) * len(facts))
    written = tuple(
        (_size(new) if new == old else 0) or size
        for new, old, size in zip(facts, before.facts, before.written, strict=True)
    )
    return Contexts(facts, written)


def _facts(process: ProcessUse, card: int, on: ProcessesByPid | None) -> ProcessBytes:
    shown = on[process.pid].used_bytes if on and process.pid in on else None
    return ProcessBytes(shown, process.shown(card), process.contexts[card], process.context_bytes[card])


def _size(facts: ProcessBytes) -> int:
    """The size of a context in bytes; 0 if it cannot be determined."""
    own = facts.counted - facts.contexts * facts.per_context
    if facts.driver is None or facts.contexts <= 0 or own < 0:
        return 0
    size = (facts.driver - own) // facts.contexts
    return size if 0 < size <= _LARGEST_CONTEXT else 0


def _context_writes(
    region: Region, contexts: Mapping[Slot, Contexts], before: ContainerPacing
) -> Iterator[Write]:
    for process in region.processes:
        slot = _slot(process)
        written, last = contexts[slot].written, before.contexts.get(slot)
        if last and written != last.written:
            yield from context_writes(process, written, region.layout)
