"""What a placement policy decides, and what policies share."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, CardUsage


class Policy(Protocol):
    """Pure functions of a node's book and a demand; equal arguments give equal results."""

    def chosen(self, book: Book, fitting: Sequence[CardUsage], demand: Demand, /) -> Sequence[CardUsage]:
        """The set of GPUs for the demand: ``demand.cards`` of those that fit, which are at least so many."""

    def score(self, book: Book, chosen: Sequence[CardUsage], demand: Demand, /) -> float:
        """How well the node suits the demand on the chosen GPUs, from 0 to 1. Higher nodes are preferred."""


def first(
    fitting: Sequence[CardUsage], demand: Demand, rank: Callable[[CardUsage], int]
) -> Sequence[CardUsage]:
    """The GPUs of the lowest ranks, as many as the demand needs. Ties go to the lowest index."""
    return sorted(fitting, key=lambda usage: (rank(usage), usage.card.index))[: demand.cards]


def fraction_left(chosen: Sequence[CardUsage], demand: Demand) -> float:
    """The free part of the chosen GPUs' memory, from 0 to 1, once the demand is placed there."""
    left = sum(usage.free.mem for usage in chosen) - demand.mem
    return left / max(1, sum(usage.total.mem for usage in chosen))
