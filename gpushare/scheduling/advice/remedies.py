"""What would make a pod fit: changes of one node, or of the request. Each is verified with ``place``.

What does not belong here: how to carry out a remedy (commands), and constraints other than GPUs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar

from gpushare.model.demand import Demand, demand_of
from gpushare.model.modes import Mode
from gpushare.scheduling.book import Book, without
from gpushare.scheduling.fitting import PodRequest, fits
from gpushare.scheduling.preemption import victims_on

_T = TypeVar("_T", int, str)

_ABOVE_ALL: Final = 2**31
"""Above every priority of Kubernetes: an administrator may evict any pod."""
_MAX_CARDS: Final = 16
"""GPUs of the largest machines."""


class RemedyKind(StrEnum):
    """What to change."""

    WAIT = "wait"
    EVICT = "evict"
    END_WHOLE = "end-whole-gpu-pods"
    RESTORE = "restore-gpus"
    MODE = "change-mode"
    SHRINK = "shrink"
    SPREAD = "spread"


_BY_SENSE: Final = (
    RemedyKind.WAIT,
    RemedyKind.SHRINK,
    RemedyKind.SPREAD,
    RemedyKind.RESTORE,
    RemedyKind.MODE,
    RemedyKind.EVICT,
    RemedyKind.END_WHOLE,
)
_WORTH: Final = 0.75
"""A smaller request is a remedy if it is at least this part of the present one."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change after which the pod fits on ``node``.

    ``pods`` are UIDs (``wait``, ``evict``), ``cards`` GPU indices (``end-whole-gpu-pods``, ``restore-gpus``),
    ``units`` the largest request on one GPU (``shrink``), ``gpus`` a number of GPUs (``spread``).
    """

    kind: RemedyKind
    node: str
    pods: frozenset[str] = frozenset()
    cards: tuple[int, ...] = ()
    units: int = 0
    gpus: int = 0
    mode: Mode | None = None


def remedies_on(book: Book, pod_request: PodRequest) -> list[Remedy]:
    """The changes of this node after which the pod fits there; empty if it fits or none helps."""
    if book.node is None or fits(book, pod_request):
        return []
    attempts = (_waiting, _evicting, _ending_whole, _restoring, _changing_mode)
    return [found for attempt in attempts if (found := attempt(book, pod_request))]


def shrunk(books: Iterable[Book], pod_request: PodRequest) -> Remedy | None:
    """The largest smaller request that fits on a node, at least one unit on each GPU; None if none does."""
    best: Remedy | None = None
    for book in books:
        least = best.units + 1 if best else 1
        units = _largest(book, pod_request, least)
        if units >= least:
            best = Remedy(RemedyKind.SHRINK, book.name, units=units)
    return best


def spread(books: Iterable[Book], pod_request: PodRequest) -> Remedy | None:
    """The smallest number of GPUs over which the same units can be spread so that the pod fits."""
    wanted = pod_request.demand
    listed = [book for book in books if book.node is not None]
    most = min(_MAX_CARDS, max((len(book.usages) for book in listed), default=0))
    for gpus in range(wanted.cards + 1, most + 1):
        request = _spread_request(pod_request, gpus)
        found = next((book for book in listed if request and fits(book, request)), None)
        if found:
            return Remedy(RemedyKind.SPREAD, found.name, gpus=gpus)
    return None


def ranked(remedies: Iterable[Remedy], pod_request: PodRequest) -> list[Remedy]:
    """The remedies by sense: those that take nothing from anybody first, evictions last.

    A much smaller request is no remedy, because a program seldom works with it.
    """
    least = _WORTH * pod_request.demand.per_card.mem
    useful = [each for each in remedies if each.kind is not RemedyKind.SHRINK or each.units >= least]
    return sorted(useful, key=lambda each: _BY_SENSE.index(each.kind))


def applied(remedy: Remedy, book: Book, pod_request: PodRequest) -> tuple[Book, PodRequest]:
    """The node and the request after the remedy."""
    match remedy.kind:
        case RemedyKind.WAIT | RemedyKind.EVICT:
            return without(book, remedy.pods), pod_request
        case RemedyKind.END_WHOLE | RemedyKind.RESTORE:
            return _with_cards(book, frozenset(remedy.cards)), pod_request
        case RemedyKind.MODE:
            return _with_mode(book, remedy.mode or Mode.SHARE), pod_request
        case RemedyKind.SHRINK:
            return book, _shrunk_request(pod_request, remedy.units)
        case RemedyKind.SPREAD:
            return book, _spread_request(pod_request, remedy.gpus) or pod_request


def _waiting(book: Book, pod_request: PodRequest) -> Remedy | None:
    """The terminating pods whose end is enough."""
    return _with_fewest_pods(RemedyKind.WAIT, _terminating(book), book, pod_request)


def _evicting(book: Book, pod_request: PodRequest) -> Remedy | None:
    """The cheapest pods to evict, as preemption chooses them, and the terminating ones among them."""
    terminating = _terminating(book)
    victims = victims_on(book, replace(pod_request, priority=_ABOVE_ALL), ())
    if victims is None or fits(without(book, terminating), pod_request):
        return None
    return _with_fewest_pods(RemedyKind.EVICT, frozenset(victims.uids) | terminating, book, pod_request)


def _terminating(book: Book) -> frozenset[str]:
    return frozenset(r.uid for r in book.reservations.values() if r.terminating)


def _with_fewest_pods(
    kind: RemedyKind, pods: frozenset[str], book: Book, pod_request: PodRequest
) -> Remedy | None:
    """As few of the pods as a search in order finds; None if the end of all is not enough.

    Nominated pods of a higher priority may take what they free.
    """

    def enough(uids: frozenset[str]) -> bool:
        return fits(without(book, uids), pod_request)

    return Remedy(kind, book.name, pods=_least(pods, enough)) if pods and enough(pods) else None


def _ending_whole(book: Book, pod_request: PodRequest) -> Remedy | None:
    whole = [usage.card.index for usage in book.usages if usage.card.whole_gpu_pods]
    return _with_fewest_cards(RemedyKind.END_WHOLE, whole, book, pod_request)


def _restoring(book: Book, pod_request: PodRequest) -> Remedy | None:
    unusable = [
        usage.card.index
        for usage in book.usages
        if not usage.card.whole_gpu_pods and (not usage.card.healthy or usage.card.index in book.unhealthy)
    ]
    return _with_fewest_cards(RemedyKind.RESTORE, unusable, book, pod_request)


def _with_fewest_cards(
    kind: RemedyKind, cards: list[int], book: Book, pod_request: PodRequest
) -> Remedy | None:
    """One of the GPUs if that is enough, else as few as a search in order finds."""

    def enough(indices: frozenset[int]) -> bool:
        return fits(_with_cards(book, indices), pod_request)

    if not cards or not enough(frozenset(cards)):
        return None
    return Remedy(kind, book.name, cards=tuple(sorted(_least(frozenset(cards), enough))))


def _changing_mode(book: Book, pod_request: PodRequest) -> Remedy | None:
    """Another sharing mode, only for a node without pods: a GPU takes no pods of two modes."""
    if book.node is None or book.node.closed or any(r.demand.mem for r in book.reservations.values()):
        return None
    mode = Mode.CORE_MEM if pod_request.demand.core else Mode.SHARE
    helps = mode is not book.node.mode and fits(_with_mode(book, mode), pod_request)
    return Remedy(RemedyKind.MODE, book.name, mode=mode) if helps else None


def _least(items: frozenset[_T], enough: Callable[[frozenset[_T]], bool]) -> frozenset[_T]:
    """The items without those that are not needed, tried in order."""
    for item in sorted(items, reverse=True):
        if enough(items - {item}):
            items -= {item}
    return items


def _with_cards(book: Book, indices: frozenset[int]) -> Book:
    """The book after these GPUs have become healthy and free of whole-GPU pods."""
    assert book.node is not None  # noqa: S101 - callers have checked
    cards = tuple(
        replace(card, healthy=True, whole_gpu_pods=()) if card.index in indices else card
        for card in book.node.cards
    )
    node = replace(book.node, cards=cards)
    return replace(book, node=node, unhealthy=book.unhealthy - indices)


def _with_mode(book: Book, mode: Mode) -> Book:
    assert book.node is not None  # noqa: S101 - callers have checked
    return replace(book, node=replace(book.node, mode=mode, pods_per_card=0))


def _largest(book: Book, pod_request: PodRequest, least: int) -> int:
    """The largest request on one GPU below the present one that fits; below ``least`` if none does.

    A request that fits also fits if it is smaller, so the search halves the range.
    """
    low, high = least - 1, pod_request.demand.per_card.mem - 1
    if high < least or not fits(book, _shrunk_request(pod_request, least)):
        return low
    while low < high:
        middle = (low + high + 1) // 2
        if fits(book, _shrunk_request(pod_request, middle)):
            low = middle
        else:
            high = middle - 1
    return low


def _shrunk_request(pod_request: PodRequest, units: int) -> PodRequest:
    """The request with so many units on each GPU; how its containers divide them does not matter here."""
    return replace(pod_request, demand=replace(pod_request.demand, mem=units * pod_request.demand.cards))


def _spread_request(pod_request: PodRequest, gpus: int) -> PodRequest | None:
    """The request on so many GPUs; None if its amounts cannot be spread evenly."""
    demand = demand_of(pod_request.demand.containers, str(gpus))
    if not isinstance(demand, Demand):
        return None
    return replace(pod_request, demand=replace(demand, gpus=pod_request.demand.gpus))
