"""Placement policies: which GPUs of a node a pod gets, and how well the node suits the pod.

A new policy is one class that satisfies ``Policy``, and one entry in ``POLICIES``. Its name also belongs in
``gpushare.model.options.Placement``, which lists the values for users.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, CardUsage


class Policy(Protocol):
    """Pure functions of a node's book and a demand; equal arguments give equal results."""

    def ranked(self, book: Book, fitting: Iterable[CardUsage], demand: Demand, /) -> list[CardUsage]:
        """The GPUs that fit the demand, best first; the demand takes the first ones."""

    def suitability(self, book: Book, chosen: Sequence[CardUsage], demand: Demand, /) -> float:
        """How well the node suits the demand on the chosen GPUs, from 0 to 1. Higher nodes are preferred."""


class Binpack:
    """Prefers the least free memory, as the Aliyun extender does. Ties go to the lowest index."""

    def ranked(self, _book: Book, fitting: Iterable[CardUsage], _demand: Demand) -> list[CardUsage]:
        """The GPU with the least free units first."""
        return sorted(fitting, key=lambda usage: (usage.free.mem, usage.card.index))

    def suitability(self, _book: Book, chosen: Sequence[CardUsage], demand: Demand) -> float:
        """1 for a node where the chosen GPUs become full."""
        return 1 - _free_fraction(chosen, demand)


class Spread:
    """Prefers the most free memory, which keeps pods apart. Ties go to the lowest index."""

    def ranked(self, _book: Book, fitting: Iterable[CardUsage], _demand: Demand) -> list[CardUsage]:
        """The GPU with the most free units first."""
        return sorted(fitting, key=lambda usage: (-usage.free.mem, usage.card.index))

    def suitability(self, _book: Book, chosen: Sequence[CardUsage], demand: Demand) -> float:
        """Close to 1 for a node where the chosen GPUs stay almost free."""
        return _free_fraction(chosen, demand)


DEFAULT: Final = "binpack"
POLICIES: Final[Mapping[str, Policy]] = {"binpack": Binpack(), "spread": Spread()}


def policy_name(book: Book, requested: str | None = None) -> str:
    """The name of the policy for a pod on a node: the pod's own, then the node's label, then binpack.

    Unknown names are ignored.
    """
    label = book.node.placement if book.node else None
    return next((name for name in (requested, label) if name in POLICIES and name is not None), DEFAULT)


def choose(
    book: Book, fitting: Iterable[CardUsage], demand: Demand, requested: str | None = None
) -> tuple[int, ...] | None:
    """The indices of the GPUs for the demand, ascending, chosen from those that fit; None if too few fit."""
    ranked = POLICIES[policy_name(book, requested)].ranked(book, fitting, demand)
    chosen = ranked[: demand.cards]
    return tuple(sorted(usage.card.index for usage in chosen)) if len(chosen) == demand.cards else None


def suitability(
    book: Book, chosen: Iterable[CardUsage], demand: Demand, requested: str | None = None
) -> float:
    """How well the node suits the demand on the chosen GPUs, from 0 to 1."""
    return POLICIES[policy_name(book, requested)].suitability(book, tuple(chosen), demand)


def _free_fraction(chosen: Sequence[CardUsage], demand: Demand) -> float:
    """The free fraction of the chosen GPUs' memory once the demand is placed there."""
    free = sum(usage.free.mem for usage in chosen) - demand.mem
    return free / max(1, sum(usage.total.mem for usage in chosen))
