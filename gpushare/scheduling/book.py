"""The book of one node: its cards, what is reserved on each, what is free.

A book is a value, recounted from its reservations each time it is made, so the sums cannot drift.
A reservation whose cards are not known counts against every card of the node.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.model.annotations import Shares, shares_from_units
from gpushare.model.cards import Card, in_use_as_whole
from gpushare.model.demand import Amount, Demand, Users
from gpushare.model.modes import Mode
from gpushare.model.objects import Node

NOBODY: Final[Users] = frozenset()


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one pod holds on one node.

    ``claim`` is the first word on its cards, from our own bind or the pod's annotations; it is
    never replaced by a later annotation. Nor is ``mode``, in which its node was then; None where that is
    not known. ``settled`` is False while the API has not shown the pod bound.
    """

    uid: str
    pod: str
    demand: Demand
    claim: Shares | None
    settled: bool = True
    terminating: bool = False
    priority: int = 0
    mode: Mode | None = None


@dataclass(frozen=True, slots=True)
class Nominee:
    """A pending pod for which the scheduler has cleared, or is clearing, room on a node."""

    uid: str
    demand: Demand
    priority: int
    placement: str | None = None


@dataclass(frozen=True, slots=True)
class CardUsage:
    """What a card has and has left. ``free`` is negative where the card is over-committed.

    A card that a pod has as a whole GPU has nothing free. ``why`` says what closes a card that has no fault,
    where that is not over-commitment. ``users`` are those of its
    pods where a card serves one user only, and empty elsewhere.
    """

    card: Card
    free: Amount
    total: Amount
    open: bool
    why: str = ""
    users: Users = NOBODY

    def holds(self, share: Amount, users: Users = NOBODY) -> bool:
        """Whether the share can be placed here, for a pod that runs as these users."""
        fits = self.open and self.free.mem >= share.mem and self.free.core >= share.core
        return fits and self.suits(users)

    def suits(self, users: Users) -> bool:
        """Whether those users may come to the ones who are here."""
        return not self.users or not users or self.users == users


@dataclass(frozen=True, slots=True)
class Book:
    """One node. ``node`` is None while pods are known there but the node itself is not.

    Made by ``make_book``, which fills the derived part: ``rooms`` in card order; ``widest``: a pod
    of one card and memory only that asks for no more than this many units fits for sure (-1 where
    that takes a closer look); ``largest``: the size of the largest card; ``most``: the most free
    card in words, for refusals; ``overcommitted``: the cards that are promised beyond their size.
    """

    name: str
    node: Node | None
    unhealthy: frozenset[int] = frozenset()
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    nominees: Mapping[str, Nominee] = field(default_factory=dict)
    rooms: tuple[CardUsage, ...] = field(default=(), compare=False)
    widest: int = field(default=-1, compare=False)
    largest: int = field(default=-1, compare=False)
    most: str = field(default="", compare=False)
    overcommitted: tuple[CardUsage, ...] = field(default=(), compare=False)


def make_book(
    name: str,
    node: Node | None,
    unhealthy: frozenset[int],
    reservations: Mapping[str, Reservation],
    nominees: Mapping[str, Nominee],
) -> Book:
    """A book with its sums counted."""
    rooms = _rooms(node, unhealthy, reservations) if node else ()
    special = node is None or node.closed is not None or node.mode is Mode.CORE_MEM or node.one_user
    plain = not special and not nominees
    widest = max((room.free.mem for room in rooms if room.open), default=-1) if plain else -1
    largest = max((room.total.mem for room in rooms), default=-1)
    over = tuple(room for room in rooms if room.free.mem < 0 or room.free.core < 0)
    return Book(name, node, unhealthy, reservations, nominees, rooms, widest, largest, _most(rooms), over)


def _most(rooms: tuple[CardUsage, ...]) -> str:
    """The open card with the most units free, and which cards are closed."""
    closed = _closed(rooms)
    best = max((room for room in rooms if room.open), key=lambda room: room.free.mem, default=None)
    if best is None:
        return f"no card is usable{closed}"
    return f"at most {best.free.mem} of {best.total.mem} free on card {best.card.index}{closed}"


def _closed(rooms: tuple[CardUsage, ...]) -> str:
    """The closed cards, and what closes those that have no fault."""
    shut: dict[str, list[str]] = {}
    for room in rooms:
        if not room.open:
            shut.setdefault(room.why, []).append(str(room.card.index))
    told = (f"card {','.join(cards)} {why}".rstrip() for why, cards in shut.items())
    return f" (closed: {'; '.join(told)})" if shut else ""


def without(book: Book, uids: frozenset[str]) -> Book:
    """The book as it would be with those pods gone."""
    left = {uid: r for uid, r in book.reservations.items() if uid not in uids}
    return make_book(book.name, book.node, book.unhealthy, left, book.nominees)


def with_reservation(book: Book, reservation: Reservation) -> Book:
    """The book with one more reservation."""
    more = {**book.reservations, reservation.uid: reservation}
    return make_book(book.name, book.node, book.unhealthy, more, book.nominees)


def shares_of(reservation: Reservation, node: Node) -> Shares | None:
    """Where a reservation lies: the agent's word, else its claim, else None: unknown.

    Units come from the pod's own limits, so an agent's word or a claim that disagrees with them, or
    names a card that the node does not have, is no answer.
    """
    return _shares(reservation, node, {card.index for card in node.cards})


def _shares(reservation: Reservation, node: Node, indices: Collection[int]) -> Shares | None:
    word = node.assigned.get(reservation.uid)
    demand = reservation.demand
    claim = reservation.claim if word is None else (shares_from_units(word, demand.core) if word else None)
    if claim is None or len(claim) != demand.cards:
        return None
    per_card = demand.per_card
    for index, share in claim:
        if share != per_card or index not in indices:
            return None
    return claim


def _rooms(
    node: Node, unhealthy: frozenset[int], reservations: Mapping[str, Reservation]
) -> tuple[CardUsage, ...]:
    parts = _parts(node, reservations)
    core = node.core_per_card
    return tuple(
        _room(node, card, Amount(card.units, core), parts[card.index], unhealthy) for card in node.cards
    )


_Part = tuple[Amount, Reservation]
"""What a pod takes of one card, and all that it holds."""


def _parts(node: Node, reservations: Mapping[str, Reservation]) -> dict[int, list[_Part]]:
    """Who is on each card; a pod of unknown card is on all of them, one that asks for zero on none."""
    parts: dict[int, list[_Part]] = {card.index: [] for card in node.cards}
    for reservation in reservations.values():
        if not any(reservation.demand.per_card):
            continue
        shares = _shares(reservation, node, parts)
        for index, share in shares or ((i, reservation.demand.per_card) for i in parts):
            parts[index].append((share, reservation))
    return parts


def _room(node: Node, card: Card, total: Amount, parts: list[_Part], unhealthy: frozenset[int]) -> CardUsage:
    mem, core = Amount(0, 0) if card.whole_gpu_pods else total
    for share, _ in parts:
        mem -= share.mem
        core -= share.core
    healthy = card.healthy and card.index not in unhealthy
    why = _why_closed(node, card, parts) if card.whole_gpu_pods or (healthy and parts) else ""
    is_open = healthy and mem >= 0 and core >= 0 and not why
    users = NOBODY.union(*(r.demand.users for _, r in parts)) if node.one_user else NOBODY
    return CardUsage(card, Amount(mem, core), total, is_open, why, users)


def _why_closed(node: Node, card: Card, parts: list[_Part]) -> str:
    """Why a card without a fault takes no pod.

    It is in use as a whole GPU. Else cards never mix modes, nor hold more pods than they may.
    """
    if reason := in_use_as_whole(card):
        return reason
    others = {r.mode for _, r in parts if r.mode is not None and r.mode is not node.mode}
    if others:
        return f"until pods of mode {' and '.join(sorted(others))} are gone"
    if 0 < node.pods_per_card <= len(parts):
        return f"with {len(parts)} of {node.pods_per_card} pods"
    return ""
