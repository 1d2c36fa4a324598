"""The order in which the files of tests start, for several workers that each take the next file.

What belongs here: the order as a pure function. What does not: reading the times (``tests.conftest``).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A file of tests: how long it takes, and whether it keeps a processor busy or shares a control plane."""

    name: str
    seconds: float
    is_busy: bool
    shares_a_bed: bool = False


def ordered(files: Iterable[File]) -> list[str]:
    """Return the longest files first, so that no worker ends long after the others, the busy ones spread.

    Several busy files at the same time would make each other slow, and leave idle processors for the rest.
    Files that share a control plane are last: an idle one uses processor time until its worker ends.
    """
    longest = sorted(files, key=lambda each: each.seconds, reverse=True)
    sharing = [each.name for each in longest if each.shares_a_bed]
    own = [each for each in longest if not each.shares_a_bed]
    busy, others = ([each.name for each in own if each.is_busy is kind] for kind in (True, False))
    return [*_spread(busy, others), *sharing]


def _spread(busy: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Each busy file, followed by its share of the others."""
    for position, name in enumerate(busy):
        yield name
        first, last = (len(others) * each // len(busy) for each in (position, position + 1))
        yield from others[first:last]
    if not busy:
        yield from others
