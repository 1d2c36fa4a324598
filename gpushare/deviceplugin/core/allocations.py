"""Who holds which card of this node: pods, what their containers were given, and the sums.

A grant is one Allocate call that was answered. Pods hold what their containers were given for as long
as they live, and while processes of theirs still run after they are gone from the API. The cards of a
grant are named by UUID, which stays when indices change. No I/O, no clock, no kubelet here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpushare.isolation.layout import IsolationMounts
from gpushare.model.annotations import Shares, even_shares
from gpushare.model.cards import Card
from gpushare.model.demand import Amount, Demand
from gpushare.model.modes import Mode
from gpushare.model.objects import Node
from gpushare.model.own_node import GpuPod
from gpushare.scheduling.book import Book, Reservation, make_book
from gpushare.scheduling.fitting import PodRequest, Rejection, place, unfit

Key = tuple[str, str]
"""Pod UID as the kubelet knows it, and container name."""


@dataclass(frozen=True, slots=True)
class Enforcement:
    """What holds a container to its units, as it was told: files that are mounted into it.

    ``place`` is the folder of its limit and its region, ``library`` the version of the library, and
    ``limit`` the text of the limit file. ``launches``: whether it has the build that holds launches too.
    """

    place: str
    library: str
    limit: str
    launches: bool = False

    @property
    def given(self) -> IsolationMounts:
        """What is mounted."""
        return IsolationMounts(self.library, self.place, self.launches)


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one container was given: units on each card by UUID.

    ``core`` is the percent of compute that its pod takes of each card, which outlives the pod's object.
    ``lead`` is the lowest device ID of the call, by which the kubelet's checkpoint tells who got it;
    ``sure`` whether it has told. ``astray`` stays True once the pod got another card than its
    annotations said. ``total`` is the pod's whole amount as the answer tells it, and ``at_ns`` when that
    was; both are 0 where somebody else answered. ``again``: this container was given the same before and
    has it, whoever the call was for. ``hold`` is None for a container that nothing holds.
    """

    uid: str
    container: str
    pod: str
    cards: tuple[tuple[str, int], ...]
    lead: str
    core: int = 0
    total: int = 0
    at_ns: int = 0
    sure: bool = False
    astray: bool = False
    again: bool = False
    hold: Enforcement | None = None

    @property
    def key(self) -> Key:
        """Whose it is."""
        return self.uid, self.container

    @property
    def units(self) -> int:
        """Units on all its cards."""
        return sum(units for _, units in self.cards)


@dataclass(frozen=True, slots=True)
class Allocations:
    """The node at one moment. ``tenants`` are the pods that live here, by the kubelet's UID.

    ``isolated``: whether an isolation library, where there is one, shall hold containers to their amounts.
    """

    node: str
    cards: tuple[Card, ...] = ()
    mode: Mode = Mode.SHARE
    placement: str | None = None
    isolated: bool = True
    gpu_pods: Mapping[str, GpuPod] = field(default_factory=dict)
    grants: Mapping[Key, Allocation] = field(default_factory=dict)
    by_pod: Mapping[str, tuple[Allocation, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by_pod: dict[str, tuple[Allocation, ...]] = {}
        for grant in self.grants.values():
            by_pod[grant.uid] = (*by_pod.get(grant.uid, ()), grant)
        object.__setattr__(self, "by_pod", by_pod)

    def grants_of(self, uid: str) -> tuple[Allocation, ...]:
        """What the containers of a pod were given."""
        return self.by_pod.get(uid, ())

    def index_of(self, uuid: str) -> int | None:
        """Where a card is now; None where the node has it no more."""
        return next((card.index for card in self.cards if card.uuid == uuid), None)


def held(allocations: Allocations, uid: str) -> Shares | None:
    """What a pod holds by its grants: index → share. None where it has none, or a card is gone.

    A pod reserves on its cards what it takes at its peak; what its containers were given may add up
    to more, because init containers hand their units on.
    """
    grants = allocations.grants_of(uid)
    there = all(allocations.index_of(uuid) is not None for grant in grants for uuid, _ in grant.cards)
    return _shares(allocations, uid) if grants and there else None


def _shares(allocations: Allocations, uid: str) -> Shares:
    """What a pod holds of the cards that the node has."""
    units: dict[str, int] = {}
    for grant in allocations.grants_of(uid):
        for uuid, amount in grant.cards:
            units[uuid] = units.get(uuid, 0) + amount
    core = max((grant.core for grant in allocations.grants_of(uid)), default=0)
    places = {
        index: amount for uuid, amount in units.items() if (index := allocations.index_of(uuid)) is not None
    }
    gpu_pod = allocations.gpu_pods.get(uid)
    demand = gpu_pod.demand if gpu_pod else None
    if demand and demand.cards == len(units):
        return even_shares(demand, tuple(places))
    return tuple(sorted((index, Amount(amount, core)) for index, amount in places.items()))


def book_of(allocations: Allocations, *, asking: str | None = None, claims: bool = True) -> Book:
    """The book of this node for the pod that is asking, without what it holds itself.

    ``claims``: whether pods that were promised a card and have not been served yet count too.
    """
    # Which users share a card is settled when pods are bound.
    node = Node(allocations.node, allocations.cards, allocations.mode, allocations.placement, multi_user=True)
    reservations = {r.uid: r for r in _reservations(allocations, asking, claims=claims)}
    return make_book(allocations.node, node, frozenset(), reservations, {})


def _reservations(allocations: Allocations, asking: str | None, *, claims: bool) -> Iterable[Reservation]:
    for uid, grants in allocations.by_pod.items():
        if uid != asking:
            yield from _held_by(allocations, uid, grants[0].pod)
    for uid, gpu_pod in allocations.gpu_pods.items() if claims else ():
        if uid != asking and uid not in allocations.by_pod and gpu_pod.demand and gpu_pod.claim:
            yield Reservation(uid, gpu_pod.pod.full_name, gpu_pod.demand, gpu_pod.claim)


def _held_by(allocations: Allocations, uid: str, pod: str) -> Iterable[Reservation]:
    """One reservation for each card: what a pod was given need not be equal parts."""
    for index, share in _shares(allocations, uid):
        demand = Demand((), share.mem, share.core, 1)
        yield Reservation(f"{uid}/{index}", pod, demand, ((index, share),))


def choose(allocations: Allocations, gpu_pod: GpuPod, demand: Demand) -> tuple[int, ...] | Rejection:
    """The cards for a pod: those it holds, else those it was promised, else the best that fit.

    A promise is kept unless a pod that was served already stands in the way: then no card is
    promised twice, and the pod gets others or nothing.
    """
    if allocations.grants_of(gpu_pod.uid):
        return _again(allocations, gpu_pod, demand)
    book = book_of(allocations, asking=gpu_pod.uid, claims=False)
    if gpu_pod.claim and not unfit(book, demand) and _fits(book, gpu_pod.claim):
        return tuple(index for index, _ in gpu_pod.claim)
    pod = gpu_pod.pod
    pod_request = PodRequest(pod.uid, demand, pod.priority, pod.placement)
    found = place(book_of(allocations, asking=gpu_pod.uid), pod_request)
    return found if isinstance(found, Rejection) else tuple(index for index, _ in found)


def _again(allocations: Allocations, gpu_pod: GpuPod, demand: Demand) -> tuple[int, ...] | Rejection:
    """The cards of a pod that holds some: they are its own, if all of it fits there.

    It may not where its first container was taken for one of another pod, with the same amount but
    with less to come.
    """
    mine = held(allocations, gpu_pod.uid)
    if mine is None:
        return Rejection("a card that it held is gone from the node")
    book = book_of(allocations, asking=gpu_pod.uid, claims=False)
    if len(mine) != demand.cards or not all(_room_for(book, index, share) for index, share in mine):
        places = ", ".join(f"card {index}" for index, _ in mine)
        return Rejection(
            f"its other containers are on {places}, where its {demand.mem} do not fit as a whole"
        )
    return tuple(index for index, _ in mine)


def _room_for(book: Book, index: int, share: Amount) -> bool:
    """Whether the card has it left, open or not: who is on a card stays there."""
    return any(
        room.card.index == index and room.free.mem >= share.mem and room.free.core >= share.core
        for room in book.rooms
    )


def _fits(book: Book, claim: Shares) -> bool:
    rooms = {room.card.index: room for room in book.rooms}
    return all(index in rooms and rooms[index].holds(share) for index, share in claim)


def core_fits(allocations: Allocations, grant: Allocation, percent: int) -> bool:
    """Whether the grant's cards have that share of compute left, whoever the grant's pod is."""
    return all(
        free.core * len(grant.cards) >= percent for free in _left(allocations, grant, asking=grant.uid)
    )


def has_room_beside(allocations: Allocations, grant: Allocation, units: int, percent: int) -> bool:
    """Whether the grant's cards have that much left, in equal parts, besides all that was given."""
    parts = len(grant.cards)
    free = _left(allocations, grant)
    return all(each.mem * parts >= units and each.core * parts >= percent for each in free)


def _left(allocations: Allocations, grant: Allocation, *, asking: str | None = None) -> list[Amount]:
    """What each of the grant's cards has left of what was given, less than nothing where it was too much."""
    book = book_of(allocations, asking=asking, claims=False)
    places = {allocations.index_of(uuid) for uuid, _ in grant.cards}
    return [room.free for room in book.rooms if room.card.index in places]
