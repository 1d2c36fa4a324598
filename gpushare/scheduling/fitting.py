"""Whether and where a demand fits on one node, and if not, why: named cards, asked and free.

Room that a nominated pod of equal or higher priority waits for is not given to others: a card must
fit the demand as things are now, and also once the terminating pods are gone and the nominee is in.
"""

from dataclasses import dataclass

from gpushare.contract import LABEL_CARDS_PER_POD, REASON_NO_CARD, REASON_NOT_SHARED, RESOURCE_CORE
from gpushare.model.annotations import Shares, even_shares
from gpushare.model.demand import Demand, Users
from gpushare.model.modes import Mode
from gpushare.model.objects import Node
from gpushare.scheduling.book import Book, CardUsage, Nominee, Reservation, with_reservation, without
from gpushare.scheduling.placement import choose


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod that looks for a place."""

    uid: str
    demand: Demand
    priority: int = 0
    placement: str | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node is no place. ``hopeless``: evicting pods there would not help."""

    text: str
    hopeless: bool = False


def place(book: Book, pod_request: PodRequest) -> Shares | Rejection:
    """The cards that the seeker gets on this node, or why it gets none. Decides, changes nothing."""
    refusal = unfit(book, pod_request.demand)
    if refusal:
        return refusal
    rooms = fitting_cards(book, pod_request)
    cards = choose(book, rooms, pod_request.demand, pod_request.placement)
    return even_shares(pod_request.demand, cards) if cards else full(book, pod_request)


def fitting_cards(book: Book, pod_request: PodRequest) -> list[CardUsage]:
    """The cards that fit one card's part of the demand, nominated pods considered."""
    share, users = pod_request.demand.per_card, pod_request.demand.users
    rooms = [room for room in book.rooms if room.holds(share, users)]
    rivals = _rivals(book, pod_request)
    if not rivals or not rooms:
        return rooms
    later = {room.card.index: room for room in _once_nominees_are_in(book, rivals).rooms}
    return [room for room in rooms if later[room.card.index].holds(share, users)]


def unfit(book: Book, demand: Demand) -> Rejection | None:
    """Why the node could not take the demand even if it were empty."""
    node = book.node
    if node is None:
        return Rejection(f'node "{book.name}" not found')
    if node.closed or not node.cards:
        reason = REASON_NOT_SHARED.format(node=book.name)
        return Rejection(f"{reason}: {node.closed}" if node.closed else reason, hopeless=True)
    if problem := _mode_problem(node, demand):
        return Rejection(f"node mode {node.mode} {problem}", hopeless=True)
    return _too_large(book, demand)


def _mode_problem(node: Node, demand: Demand) -> str | None:
    """What the node's mode has against the demand, wherever it would lie."""
    if demand.core and not node.core_per_card:
        return f"does not divide compute ({RESOURCE_CORE})"
    if node.mode is Mode.CORE_MEM and not demand.core:
        return f"takes only pods that ask for {RESOURCE_CORE}"
    if node.mode is Mode.MPS and demand.cards > 1:
        return f"gives a pod one card, not {demand.cards}: take the label {LABEL_CARDS_PER_POD} out of it"
    problem = _user_problem(demand) if node.one_user else None
    return problem and f"serves one user on a card, and {problem}"


def _user_problem(demand: Demand) -> str | None:
    """What keeps a pod from sharing a card with pods of its own user only."""
    using = [container for container in demand.containers if container.mem]
    unknown = next((c for c in using if c.user is None), None)
    if unknown:
        return (
            f"that of {unknown.kind} {unknown.name} is not known: set securityContext.runAsUser, "
            "without hostUsers: false"
        )
    if len(demand.users) > 1:
        named = ", ".join(f"{c.name} {c.user}" for c in using)
        return f"the pod's containers run as several ({named}): give them one securityContext.runAsUser"
    return None


def _too_large(book: Book, demand: Demand) -> Rejection | None:
    """Larger than any card, or more cards than there are."""
    if demand.per_card.mem > book.largest:
        return Rejection(f"{asked(demand)}, {too_large(book)}", hopeless=True)
    if demand.cards > len(book.rooms):
        return Rejection(f"{asked(demand)}, the node has {len(book.rooms)}", hopeless=True)
    return None


def full(book: Book, pod_request: PodRequest) -> Rejection:
    """Why no card has room now. Short: the scheduler joins these of all nodes into one line."""
    demand = pod_request.demand
    fitting = [room for room in book.rooms if room.holds(demand.per_card, demand.users)]
    held = "; held for a pod that preempts" if len(fitting) >= demand.cards else ""
    core = f"; % of compute free: {_core_free(book)}" if demand.core else ""
    return Rejection(f"{asked(demand)}, {book.most}{core}{_other_users(book, demand)}{held}")


def _core_free(book: Book) -> str:
    return ", ".join(f"{room.free.core} on card {room.card.index}" for room in book.rooms if room.open)


def _other_users(book: Book, demand: Demand) -> str:
    """The open cards whose pods run as somebody else."""
    others = [room for room in book.rooms if room.open and not room.suits(demand.users)]
    told = ", ".join(f"card {room.card.index} serves {_spelled(room.users)}" for room in others)
    return f"; the pod runs as user {_spelled(demand.users)}, {told}" if told else ""


def _spelled(users: Users) -> str:
    return " and ".join(sorted("an unknown one" if user is None else str(user) for user in users))


def too_large(book: Book) -> str:
    """The second half of a refusal for what no card of the node could ever hold."""
    return f"the largest card has {book.largest}"


def asked(demand: Demand) -> str:
    """The first half of a refusal: what was asked of one card."""
    core = f" and {demand.per_card.core} % of compute" if demand.core else ""
    cards = f" on each of {demand.cards} cards" if demand.cards > 1 else ""
    return f"{REASON_NO_CARD}: asked {demand.per_card.mem}{core}{cards}"


def _rivals(book: Book, pod_request: PodRequest) -> list[Nominee]:
    if not book.nominees:
        return []
    waiting = (n for n in book.nominees.values() if n.uid not in book.reservations)
    rivals = [n for n in waiting if n.uid != pod_request.uid and n.priority >= pod_request.priority]
    return sorted(rivals, key=lambda n: (-n.priority, n.uid))


def _once_nominees_are_in(book: Book, nominees: list[Nominee]) -> Book:
    """The node as it will be: terminating pods gone, nominees placed as they will be placed."""
    future = without(book, frozenset(r.uid for r in book.reservations.values() if r.terminating))
    for nominee in nominees:
        if unfit(future, nominee.demand):
            continue
        share, users = nominee.demand.per_card, nominee.demand.users
        rooms = [room for room in future.rooms if room.holds(share, users)]
        cards = choose(future, rooms, nominee.demand, nominee.placement)
        if cards:
            shares = even_shares(nominee.demand, cards)
            future = with_reservation(
                future, Reservation(nominee.uid, "", nominee.demand, shares, settled=False)
            )
    return future
