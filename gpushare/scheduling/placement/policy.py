"""What a placement policy decides, and what policies share."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, CardUsage


class Policy(Protocol):
    """Pure functions of a node's book and a demand; equal arguments give equal results."""

    def ranked(self, book: Book, fitting: Iterable[CardUsage], demand: Demand, /) -> list[CardUsage]:
        """The GPUs that fit the demand, best first; the demand takes the first ones."""

    def suitability(self, book: Book, chosen: Sequence[CardUsage], demand: Demand, /) -> float:
        """How well the node suits the demand on the chosen GPUs, from 0 to 1. Higher nodes are preferred."""


def fraction_left(chosen: Sequence[CardUsage], demand: Demand) -> float:
    """The free part of the chosen GPUs' memory, from 0 to 1, once the demand is placed there."""
    left = sum(usage.free.mem for usage in chosen) - demand.mem
    return left / max(1, sum(usage.total.mem for usage in chosen))
