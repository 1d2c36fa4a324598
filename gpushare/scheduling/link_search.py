"""The sets of GPUs of one machine with the best links among each other.

GPUs that can take each other's place in every set form one kind, so that a set is a number of GPUs of each
kind: with NVSwitch, all GPUs are of one kind. The results depend on the machine alone, not on what is free,
and thousands of nodes have few kinds of machines. So they are kept.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final, NamedTuple

from gpushare.model.cards import Card, link_to
from gpushare.model.hardware import Link

_VALUES: Final = {link: value for value, link in enumerate(reversed(Link))}
"""The nearer, the higher; 0 between NUMA nodes."""
BEST_VALUE: Final = _VALUES[Link.NVLINK]
MOST_SETS: Final = 200
"""So many sets are compared one by one, which takes 1 ms: all of 8 GPUs. Beyond it, sets are built GPU by GPU
and improved by exchanges, which is not always the best: 8 of 16 different GPUs would take 64 ms."""

Values = tuple[tuple[int, ...], ...]
"""The value of the link of each pair of GPUs, by their positions; 0 on the diagonal."""


class Spot(NamedTuple):
    """Where a GPU is in its machine: its index, and its links as in ``Card``."""

    gpu: int
    numa: int | None
    links: str


class Part(NamedTuple):
    """So many of the GPUs with these indices, whichever."""

    gpus: tuple[int, ...]
    number: int


Choice = tuple[Part, ...]
"""Sets of GPUs that are equal but for the choice within the parts."""


def spot_of(card: Card) -> Spot:
    """Where a GPU is."""
    return Spot(card.index, card.numa, card.links)


def value(one: Spot, other: Spot) -> int:
    """How near two GPUs are; without published links, by their NUMA nodes."""
    low, high = (one, other) if one.gpu < other.gpu else (other, one)
    link = link_to(low.links, high.gpu)
    if link is not None:
        return _VALUES[link]
    same = low.numa is not None and low.numa == high.numa
    return _VALUES[Link.NUMA_NODE] if same else 0


@lru_cache(maxsize=4096)
def best_choices(spots: tuple[Spot, ...], size: int) -> tuple[Choice, ...]:
    """The sets of the size with the best links in total, at least one; ``size`` is at most all GPUs."""
    values = tuple(tuple(0 if one is other else value(one, other) for other in spots) for one in spots)
    kinds = _kinds(values)
    if _number(kinds, size) > MOST_SETS:
        return (
            tuple(Part((spots[each].gpu,), 1) for each in _improved(values, _grown(values, kinds, size))),
        )
    return tuple(
        tuple(
            Part(tuple(spots[each].gpu for each in kind), n) for kind, n in zip(kinds, some, strict=True) if n
        )
        for some in _best_counts(values, kinds, size)
    )


def _best_counts(values: Values, kinds: Sequence[Sequence[int]], size: int) -> Iterator[tuple[int, ...]]:
    """How many of each kind the sets with the best links have."""
    totals = {
        some: _total(values, [each for kind, n in zip(kinds, some, strict=True) for each in kind[:n]])
        for some in _counts(kinds, size)
    }
    best = max(totals.values())
    return (some for some, total in totals.items() if total == best)


def _total(values: Values, positions: Sequence[int]) -> int:
    return sum(values[one][other] for one, other in combinations(positions, 2))


def _kinds(values: Values) -> list[list[int]]:
    """The positions by kind."""
    kinds: list[list[int]] = []
    for position in range(len(values)):
        kind = next((each for each in kinds if _alike(values, each[0], position)), None)
        if kind is None:
            kinds.append([position])
        else:
            kind.append(position)
    return kinds


def _alike(values: Values, one: int, other: int) -> bool:
    """Whether both have the same links to all other GPUs."""
    pairs = enumerate(zip(values[one], values[other], strict=True))
    return all(first == second for at, (first, second) in pairs if at not in (one, other))


def _number(kinds: Sequence[Sequence[int]], size: int) -> int:
    """How many counts there are, without making them."""
    ways = [1] + [0] * size
    for kind in kinds:
        ways = [sum(ways[max(0, taken - len(kind)) : taken + 1]) for taken in range(size + 1)]
    return ways[size]


def _counts(kinds: Sequence[Sequence[int]], size: int) -> Iterator[tuple[int, ...]]:
    """Each way to take ``size`` GPUs: how many of each kind."""
    if not kinds:
        if size == 0:
            yield ()
        return
    kind, *others = kinds
    rest = sum(map(len, others))
    for taken in range(max(0, size - rest), min(size, len(kind)) + 1):
        for some in _counts(others, size - taken):
            yield (taken, *some)


def _grown(values: Values, kinds: Sequence[Sequence[int]], size: int) -> list[int]:
    """The best of the sets that grow from a GPU of each kind, each time by the GPU with the best links."""
    grown = []
    for first, *_ in kinds:
        positions, gains = [first], [*values[first]]
        while len(positions) < size:
            added = max((at for at in range(len(values)) if at not in positions), key=gains.__getitem__)
            positions.append(added)
            gains = [gain + more for gain, more in zip(gains, values[added], strict=True)]
        grown.append(positions)
    return max(grown, key=lambda positions: _total(values, positions))


def _improved(values: Values, positions: list[int]) -> list[int]:
    """The set after exchanges of one GPU for another, as long as one makes it better."""
    gains = [*map(sum, zip(*(values[each] for each in positions), strict=True))]
    others = [at for at in range(len(values)) if at not in positions]
    exchanges = (
        (gains[into] - gains[out] - values[out][into], out, into) for out in positions for into in others
    )
    gain, out, into = max(exchanges, default=(0, 0, 0))
    if gain <= 0:
        return sorted(positions)
    return _improved(values, [*(each for each in positions if each != out), into])
