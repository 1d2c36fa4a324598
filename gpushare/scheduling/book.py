"""The book of one node: its cards, what is reserved on each, what is free.

A book is a value, recounted from its reservations each time it is made, so the sums cannot drift.
A reservation whose cards are not known counts against every card of the node.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gpushare.model.annotations import Shares, shares_from_units
from gpushare.model.cards import Card
from gpushare.model.demand import Demand, Share
from gpushare.model.objects import Mode, Node


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one pod holds on one node.

    ``claim`` is the first word on its cards, from our own bind or the pod's annotations; it is
    never replaced by a later annotation. ``settled`` is False while the API has not shown the pod
    bound.
    """

    uid: str
    pod: str
    demand: Demand
    claim: Shares | None
    settled: bool = True
    terminating: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Nominee:
    """A pending pod for which the scheduler has cleared, or is clearing, room on a node."""

    uid: str
    demand: Demand
    priority: int
    placement: str | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """What a card has and has left. ``free`` is negative where the card is over-committed."""

    card: Card
    free: Share
    total: Share
    open: bool

    def holds(self, share: Share) -> bool:
        """Whether the share can be placed here."""
        return self.open and self.free.mem >= share.mem and self.free.core >= share.core


@dataclass(frozen=True, slots=True)
class Book:
    """One node. ``node`` is None while pods are known there but the node itself is not.

    Made by ``make_book``, which fills the derived part: ``rooms`` in card order; ``widest``: a pod
    of one card and memory only that asks for no more than this many units fits for sure (-1 where
    that takes a closer look); ``largest``: the size of the largest card; ``most``: the most free
    card in words, for refusals; ``overcommitted``: the cards that are promised beyond their size.
    ``scores`` remembers what ``screen`` worked out from this very book.
    """

    name: str
    node: Node | None
    unhealthy: frozenset[int] = frozenset()
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    nominees: Mapping[str, Nominee] = field(default_factory=dict)
    rooms: tuple[Room, ...] = field(default=(), compare=False)
    widest: int = field(default=-1, compare=False)
    largest: int = field(default=-1, compare=False)
    most: str = field(default="", compare=False)
    overcommitted: tuple[Room, ...] = field(default=(), compare=False)
    scores: dict[str, int] = field(default_factory=dict, compare=False)


def make_book(
    name: str,
    node: Node | None,
    unhealthy: frozenset[int],
    reservations: Mapping[str, Reservation],
    nominees: Mapping[str, Nominee],
) -> Book:
    """A book with its sums counted."""
    rooms = _rooms(node, unhealthy, reservations) if node else ()
    plain = node is not None and node.closed is None and node.mode is not Mode.CORE_MEM and not nominees
    widest = max((room.free.mem for room in rooms if room.open), default=-1) if plain else -1
    largest = max((room.total.mem for room in rooms), default=-1)
    over = tuple(room for room in rooms if room.free.mem < 0 or room.free.core < 0)
    return Book(name, node, unhealthy, reservations, nominees, rooms, widest, largest, _most(rooms), over)


def _most(rooms: tuple[Room, ...]) -> str:
    """The open card with the most units free, and which cards are closed."""
    shut = ",".join(str(room.card.index) for room in rooms if not room.open)
    closed = f" (closed: card {shut})" if shut else ""
    best = max((room for room in rooms if room.open), key=lambda room: room.free.mem, default=None)
    if best is None:
        return f"no card is usable{closed}"
    return f"at most {best.free.mem} of {best.total.mem} free on card {best.card.index}{closed}"


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
) -> tuple[Room, ...]:
    used = _used(node, reservations)
    return tuple(
        _room(card, Share(card.units, node.core_per_card), used[card.index], unhealthy) for card in node.cards
    )


def _room(card: Card, total: Share, used: Share, unhealthy: frozenset[int]) -> Room:
    free = Share(total.mem - used.mem, total.core - used.core)
    sound = free.mem >= 0 and free.core >= 0
    return Room(card, free, total, open=sound and card.healthy and card.index not in unhealthy)


def _used(node: Node, reservations: Mapping[str, Reservation]) -> dict[int, Share]:
    mem = dict.fromkeys((card.index for card in node.cards), 0)
    core = dict(mem)
    for reservation in reservations.values():
        shares = _shares(reservation, node, mem)
        for index, share in shares or ((i, reservation.demand.per_card) for i in mem):
            mem[index] += share.mem
            core[index] += share.core
    return {index: Share(mem[index], core[index]) for index in mem}
