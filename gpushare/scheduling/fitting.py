"""Whether and where a demand fits on one node, and the text of filter if it does not.

Units that a nominated pod waits for are not available to pods whose turn is later: a GPU must fit the demand
now, and also after the terminating pods are gone and the nominee is placed.
"""

from dataclasses import dataclass
from typing import Final

from gpushare.contract import LABEL_CARDS_PER_POD, REASON_NO_CARD, RESOURCE_CORE
from gpushare.model.annotations import Shares, even_shares
from gpushare.model.demand import Demand
from gpushare.model.modes import Mode
from gpushare.model.objects import Node
from gpushare.scheduling.allowed_gpus import allowed_gpus, choice_problem, largest_allowed
from gpushare.scheduling.book import Book, CardUsage, Nominee, Reservation, with_reservation, without
from gpushare.scheduling.placement import choose


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod that is being placed. ``binding``: the scheduler has chosen the node, and binds the pod now."""

    uid: str
    demand: Demand
    priority: int = 0
    placement: str | None = None
    binding: bool = False


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node cannot take a pod. ``unresolvable``: evicting pods there would not help.

    The text depends on the pod and on the kind of the node, not on what is free there. The scheduler joins
    the different texts of all nodes in the condition of a waiting pod, and writes the pod whenever they
    change. ``refusals.refusal`` has the amounts.
    """

    text: str
    unresolvable: bool = False


NOT_FOUND: Final = Rejection("node not found")
_NOT_SHARED: Final = Rejection("The node is not for GPU share, need skip", unresolvable=True)


def place(book: Book, pod_request: PodRequest) -> Shares | Rejection:
    """The GPUs and amounts for the pod on this node, or the rejection. Changes nothing."""
    rejection = unfit(book, pod_request.demand)
    if rejection:
        return rejection
    usages = fitting_cards(book, pod_request)
    cards = choose(book, usages, pod_request.demand, pod_request.placement)
    return even_shares(pod_request.demand, cards) if cards else Rejection(insufficient(pod_request.demand))


def fits(book: Book, pod_request: PodRequest) -> bool:
    """Whether the pod fits on the node now."""
    return not isinstance(place(book, pod_request), Rejection)


def fitting_cards(book: Book, pod_request: PodRequest) -> list[CardUsage]:
    """The GPUs that fit the demand's amount per GPU, nominated pods considered."""
    usages = _now_fitting(book, pod_request.demand)
    future = after_nominees(book, pod_request) if usages else book
    if future is book:
        return usages
    later = {usage.card.index for usage in _now_fitting(future, pod_request.demand)}
    return [usage for usage in usages if usage.card.index in later]


def _now_fitting(book: Book, demand: Demand) -> list[CardUsage]:
    share, users = demand.per_card, demand.users
    return [usage for usage in allowed_gpus(book, demand) if usage.fits(share, users)]


def after_nominees(book: Book, pod_request: PodRequest) -> Book:
    """The book that the pod has to fit too: with the nominated pods for which it leaves units."""
    competitors = competing_nominees(book, pod_request)
    return _with_nominees(book, competitors) if competitors else book


def unfit(book: Book, demand: Demand) -> Rejection | None:
    """Why the node could not take the demand even if it had no pods; None if it could."""
    node = book.node
    if node is None:
        return NOT_FOUND
    if node.closed or not node.cards:
        return _NOT_SHARED
    if problem := _mode_problem(node, demand):
        return Rejection(f"node mode {node.mode} {problem}", unresolvable=True)
    if problem := choice_problem(book, demand):
        return Rejection(problem, unresolvable=True)
    return _exceeds_node(book, demand)


def _mode_problem(node: Node, demand: Demand) -> str | None:
    """Why the node's mode excludes the demand, on any GPU; None if it does not."""
    if demand.core and not node.core_per_card:
        return f"does not divide compute ({RESOURCE_CORE})"
    if node.mode is Mode.CORE_MEM and not demand.core:
        return f"takes only pods that ask for {RESOURCE_CORE}"
    if node.mode is Mode.MPS and demand.cards > 1:
        return f"allocates one GPU to a pod, not {demand.cards}: remove the label {LABEL_CARDS_PER_POD}"
    problem = _user_problem(demand) if node.one_user else None
    return problem and f"serves one user on a GPU, and {problem}"


def _user_problem(demand: Demand) -> str | None:
    """Why the pod has no single user, which a GPU with one user requires; None if it has."""
    using = [container for container in demand.containers if container.mem]
    unknown = next((c for c in using if c.user is None), None)
    if unknown:
        return (
            f"the user of {unknown.kind} {unknown.name} is not known: set securityContext.runAsUser, "
            "without hostUsers: false"
        )
    if len(demand.users) > 1:
        named = ", ".join(f"{c.name} {c.user}" for c in using)
        return f"the pod's containers run as several users ({named}): give them one securityContext.runAsUser"
    return None


def _exceeds_node(book: Book, demand: Demand) -> Rejection | None:
    if demand.per_card.mem > largest_allowed(book, demand):
        return too_large(demand)
    if demand.cards > len(book.usages):
        return Rejection(f"{insufficient(demand)}, the node has fewer", unresolvable=True)
    return None


def too_large(demand: Demand) -> Rejection:
    """The rejection of a demand that exceeds every GPU of the node."""
    return Rejection(f"{insufficient(demand)}, no GPU is that large", unresolvable=True)


def insufficient(demand: Demand) -> str:
    """The rejection of a demand that does not fit now: the amount requested on one GPU."""
    core = f" and {demand.per_card.core} % of compute" if demand.core else ""
    cards = f" on each of {demand.cards} GPUs" if demand.cards > 1 else ""
    choice = f", {demand.gpus}" if demand.gpus else ""
    return f"{REASON_NO_CARD}: asked {demand.per_card.mem}{core}{cards}{choice}"


def competing_nominees(book: Book, pod_request: PodRequest) -> list[Nominee]:
    """The nominated pods for which the pod has to leave units, in the order of their turns.

    A pod that is not nominated waits for those of equal priority too, except at its bind: filter has let it
    pass, and a nominee that has come since waits for it, unless room was made for that nominee.
    """
    if not book.nominees:
        return []
    mine = book.nominees.get(pod_request.uid)
    waiting = (
        n for n in book.nominees.values() if n.uid != pod_request.uid and n.uid not in book.reservations
    )
    competitors = [n for n in waiting if (n.turn < mine.turn if mine else _goes_first(n, pod_request))]
    return sorted(competitors, key=lambda nominee: nominee.turn)


def _goes_first(nominee: Nominee, pod_request: PodRequest) -> bool:
    """Whether a pod that is not nominated leaves units for the nominee."""
    if pod_request.binding and not nominee.held:
        return nominee.priority > pod_request.priority
    return nominee.priority >= pod_request.priority


def _with_nominees(book: Book, nominees: list[Nominee]) -> Book:
    """The book after the terminating pods are gone and the nominees are placed."""
    future = without(book, frozenset(r.uid for r in book.reservations.values() if r.terminating))
    for nominee in nominees:
        if unfit(future, nominee.demand):
            continue
        usages = _now_fitting(future, nominee.demand)
        cards = choose(future, usages, nominee.demand, nominee.placement)
        if cards:
            shares = even_shares(nominee.demand, cards)
            future = with_reservation(
                future,
                Reservation(
                    nominee.uid,
                    nominee.pod,
                    nominee.demand,
                    shares,
                    confirmed=False,
                    labels=nominee.labels,
                ),
            )
    return future
