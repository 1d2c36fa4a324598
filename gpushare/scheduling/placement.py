"""Which card of a node: placement policies as pure functions, chosen by name.

A policy orders the cards that fit; the first ones are taken. Ties go to the lowest index.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, CardUsage

Policy = Callable[[CardUsage], tuple[int, int]]
"""The sort key of a card that fits: the smallest is taken first."""

DEFAULT: Final = "binpack"


def binpack(room: CardUsage) -> tuple[int, int]:
    """Fill the fullest card first: the smallest sufficient free, as the original does."""
    return room.free.mem, room.card.index


def spread(room: CardUsage) -> tuple[int, int]:
    """Keep pods apart: the emptiest card first."""
    return -room.free.mem, room.card.index


POLICIES: Final[Mapping[str, Policy]] = {"binpack": binpack, "spread": spread}


def policy_of(book: Book, wish: str | None = None) -> str:
    """The policy's name for a pod on a node: the pod's wish, else the node's label, else binpack."""
    label = book.node.placement if book.node else None
    return next((name for name in (wish, label) if name in POLICIES and name is not None), DEFAULT)


def choose(
    book: Book, rooms: Iterable[CardUsage], demand: Demand, wish: str | None = None
) -> tuple[int, ...] | None:
    """The card indices that the demand takes out of the rooms that fit it; None if too few fit."""
    ranked = sorted(rooms, key=POLICIES[policy_of(book, wish)])
    taken = ranked[: demand.cards]
    return tuple(sorted(room.card.index for room in taken)) if len(taken) == demand.cards else None
