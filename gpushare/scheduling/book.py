"""The book of one node: its GPUs, and the reserved and free units of each.

A book is a value whose sums are recomputed from its reservations each time it is made, so they cannot drift.
A reservation with unknown GPUs counts, with all its units, against every GPU of the node.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpushare.model.annotations import Shares, known_shares
from gpushare.model.cards import Card, in_use_as_whole
from gpushare.model.demand import Amount, Demand, Users
from gpushare.model.modes import Mode
from gpushare.model.objects import Node, Pod

NO_USERS: Final[Users] = frozenset()


@dataclass(frozen=True, slots=True)
class Reservation:
    """The units that one pod reserves on one node.

    ``claim`` are the GPUs and amounts from our own bind or from the pod's bind annotations, and ``mode`` is
    the node's sharing mode at that time; None if unknown. Later annotations change neither. ``confirmed`` is
    False until the API shows the pod bound.
    """

    uid: str
    pod: str
    demand: Demand
    claim: Shares | None
    confirmed: bool = True
    terminating: bool = False
    priority: int = 0
    mode: Mode | None = None
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Nominee:
    """A pending pod that the scheduler, or another controller, expects on a node: ``nominatedNodeName``.

    ``pod`` is its namespace and name, ``created`` its creation time as the API writes it. ``held`` is whether
    room was made for it: pods of the same priority leave it too, also at their bind.
    """

    uid: str
    pod: str
    demand: Demand
    priority: int
    created: str = ""
    placement: str | None = None
    held: bool = False
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def turn(self) -> tuple[int, str, str]:
        """Nominees of a node are placed in this order, which is total: two never wait for each other."""
        return -self.priority, self.created, self.uid


def nominee_of(pod: Pod, demand: Demand) -> Nominee:
    """The nominee that a pod is."""
    return Nominee(
        pod.uid, pod.full_name, demand, pod.priority, pod.created, pod.placement, pod.held, pod.labels
    )


@dataclass(frozen=True, slots=True)
class CardUsage:
    """Total and free amounts of one GPU. ``free`` is negative if the GPU is over-committed.

    A GPU that a whole-GPU pod uses has nothing free. ``reason`` states why a healthy GPU is not schedulable,
    and is empty if the cause is over-commitment. ``users`` are the users of its pods if a GPU serves one user
    only, otherwise empty.
    """

    card: Card
    free: Amount
    total: Amount
    schedulable: bool
    reason: str = ""
    users: Users = NO_USERS

    def fits(self, amount: Amount, users: Users = NO_USERS) -> bool:
        """Whether the amount can be placed here, for a pod that runs as these users."""
        enough = self.free.mem >= amount.mem and self.free.core >= amount.core
        return self.schedulable and enough and self.accepts(users)

    def accepts(self, users: Users) -> bool:
        """Whether pods of these users may share the GPU with the pods on it."""
        return not self.users or not users or self.users == users


@dataclass(frozen=True, slots=True)
class Book:
    """One node. ``node`` is None while only pods of the node are known.

    The rest is derived: ``usages`` in index order; ``fits_up_to``: a pod that requests memory only, on one
    GPU, and at most this many units certainly fits (-1: ``fitting`` must decide); ``most_free``: free units
    of the schedulable GPU with the most (-1: none); ``largest``: units of the largest GPU;
    ``overcommitted``: the over-committed GPUs.
    """

    name: str
    node: Node | None
    unhealthy: frozenset[int] = frozenset()
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    nominees: Mapping[str, Nominee] = field(default_factory=dict)
    usages: tuple[CardUsage, ...] = field(init=False, compare=False)
    fits_up_to: int = field(init=False, compare=False)
    most_free: int = field(init=False, compare=False)
    largest: int = field(init=False, compare=False)
    overcommitted: tuple[CardUsage, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        node = self.node
        usages = _usages(node, self.unhealthy, self.reservations) if node else ()
        special = node is None or node.closed is not None or node.mode is Mode.CORE_MEM or node.one_user
        most_free = max((usage.free.mem for usage in usages if usage.schedulable), default=-1)
        derived = {
            "usages": usages,
            "fits_up_to": -1 if special or self.nominees else most_free,
            "most_free": most_free,
            "largest": max((usage.total.mem for usage in usages), default=-1),
            "overcommitted": tuple(usage for usage in usages if usage.free.mem < 0 or usage.free.core < 0),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)  # as the class is frozen


def without(book: Book, uids: frozenset[str]) -> Book:
    """The book without the reservations of these pods."""
    remaining = {uid: r for uid, r in book.reservations.items() if uid not in uids}
    return replace(book, reservations=remaining)


def with_reservation(book: Book, reservation: Reservation) -> Book:
    """The book with another reservation."""
    return replace(book, reservations={**book.reservations, reservation.uid: reservation})


def reserved_shares(reservation: Reservation, node: Node) -> Shares | None:
    """GPUs of a reservation: node annotation first, then bind annotation; None if unknown."""
    return _shares(reservation, node, {card.index for card in node.cards})


def _shares(reservation: Reservation, node: Node, indices: Collection[int]) -> Shares | None:
    assigned = node.assigned.get(reservation.uid)
    return known_shares(reservation.demand, reservation.claim, assigned, indices)


def _usages(
    node: Node, unhealthy: frozenset[int], reservations: Mapping[str, Reservation]
) -> tuple[CardUsage, ...]:
    occupants = _occupants(node, reservations)
    core = node.core_per_card
    return tuple(
        _usage(node, card, Amount(card.units, core), occupants[card.index], unhealthy) for card in node.cards
    )


_Occupant = tuple[Amount, Reservation]
"""The amount that a pod reserves on one GPU, and its whole reservation."""


def _occupants(node: Node, reservations: Mapping[str, Reservation]) -> dict[int, list[_Occupant]]:
    """The pods on each GPU; with unknown GPUs on all of them, with a demand of zero on none.

    With unknown GPUs all units count on each: the label with the number of GPUs can be edited.
    """
    occupants: dict[int, list[_Occupant]] = {card.index: [] for card in node.cards}
    for reservation in reservations.values():
        whole = Amount(reservation.demand.mem, reservation.demand.core)
        if not any(whole):
            continue
        shares = _shares(reservation, node, occupants)
        for index, share in shares or ((i, whole) for i in occupants):
            occupants[index].append((share, reservation))
    return occupants


def _usage(
    node: Node, card: Card, total: Amount, occupants: list[_Occupant], unhealthy: frozenset[int]
) -> CardUsage:
    mem, core = Amount(0, 0) if card.whole_gpu_pods else total
    for share, _ in occupants:
        mem -= share.mem
        core -= share.core
    healthy = card.healthy and card.index not in unhealthy
    stated = bool(card.whole_gpu_pods or card.closed or card.fault) or (healthy and bool(occupants))
    reason = _unschedulable_reason(node, card, occupants) if stated else ""
    schedulable = healthy and mem >= 0 and core >= 0 and not reason
    users = NO_USERS.union(*(r.demand.users for _, r in occupants)) if node.one_user else NO_USERS
    return CardUsage(card, Amount(mem, core), total, schedulable, reason, users)


def _unschedulable_reason(node: Node, card: Card, occupants: list[_Occupant]) -> str:
    """Why a GPU takes no pods: whole-GPU pods, its agent, pods of another mode, or the maximum."""
    if reason := in_use_as_whole(card) or card.closed:
        return reason
    if card.fault:
        return f"is unhealthy: {card.fault}"
    others = {r.mode for _, r in occupants if r.mode is not None and r.mode is not node.mode}
    if others:
        return f"until pods of mode {' and '.join(sorted(others))} are gone"
    if 0 < node.pods_per_card <= len(occupants):
        return f"with {len(occupants)} of {node.pods_per_card} pods"
    return ""
