"""Preempt: which pods of a node must go so that a pod of higher priority gets *one card's* room.

kube-scheduler picks victims by node totals and does not know cards: its victims may free units on
different cards and die for nothing. Here its choice is kept where it frees enough on one card, and
replaced by the least costly set on one card where it does not.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, Reservation, shares_of, without
from gpushare.scheduling.fitting import PodRequest, Rejection, fitting_cards, place, unfit
from gpushare.scheduling.ledger import Ledger

Cost = tuple[int, int, int]
_LOWEST: Final = -(2**31)


def preempt(
    ledger: Ledger, pod_request: PodRequest, proposed: Mapping[str, Iterable[str]]
) -> dict[str, tuple[str, ...]]:
    """For each proposed node the UIDs of the pods to evict; nodes where none would help are left out."""
    answer = {}
    for name, uids in proposed.items():
        book = ledger.books.get(name)
        victims = victims_on(book, pod_request, tuple(uids)) if book else None
        if victims is not None:
            answer[name] = victims
    return answer


def victims_on(book: Book, pod_request: PodRequest, proposed: tuple[str, ...]) -> tuple[str, ...] | None:
    """The victims on one node, None where evicting every lower pod would not make room."""
    if unfit(book, pod_request.demand):
        return None
    going = frozenset(r.uid for r in book.reservations.values() if r.terminating)
    if not isinstance(place(without(book, going | frozenset(proposed)), pod_request), Rejection):
        return proposed
    ours = _cheapest(without(book, going), pod_request, frozenset(proposed))
    if ours is None:
        return None
    strangers = tuple(uid for uid in proposed if uid not in book.reservations)
    # A node without victims would make kube-scheduler drop the preemption on all nodes.
    return strangers + tuple(sorted(ours)) or None


def _cheapest(book: Book, pod_request: PodRequest, preferred: frozenset[str]) -> frozenset[str] | None:
    """The least costly victims on as many cards as the demand needs, else on any cards at all."""

    def fits(gone: frozenset[str]) -> bool:
        return not isinstance(place(without(book, gone), pod_request), Rejection)

    per_card = [
        victims
        for room in book.rooms
        if (victims := _victims_on_card(book, pod_request, room.card.index, preferred)) is not None
    ]
    per_card.sort(key=lambda victims: _cost(book, victims))
    everybody = _lower(book.reservations.values(), pod_request)
    cheap = frozenset[str]().union(*per_card[: pod_request.demand.cards])
    return next((_spared(book, some, preferred, fits) for some in (cheap, everybody) if fits(some)), None)


def _victims_on_card(
    book: Book, pod_request: PodRequest, index: int, preferred: frozenset[str]
) -> frozenset[str] | None:
    """Lower pods of the card that must go for one card's part of the demand."""

    def fits(gone: frozenset[str]) -> bool:
        return _fits(book, gone, pod_request, index)

    lower = _lower(_on_card(book, index), pod_request)
    return _spared(book, lower, preferred, fits) if fits(lower) else None


def _lower(reservations: Iterable[Reservation], pod_request: PodRequest) -> frozenset[str]:
    """Who may go: pods of lower priority, and bound ones, as kube-scheduler knows no others."""
    return frozenset(r.uid for r in reservations if r.settled and r.priority < pod_request.priority)


def _spared(
    book: Book, victims: frozenset[str], preferred: frozenset[str], fits: Callable[[frozenset[str]], bool]
) -> frozenset[str]:
    """The victims minus those that can stay: the highest in priority stay first."""
    for uid in sorted(victims, key=lambda u: (-book.reservations[u].priority, u in preferred, u)):
        if fits(victims - {uid}):
            victims -= {uid}
    return victims


def _on_card(book: Book, index: int) -> list[Reservation]:
    """Reservations that count against a card, those of unknown card among them."""
    assert book.node is not None  # noqa: S101 - rooms exist only where the node does
    found = []
    for reservation in book.reservations.values():
        shares = shares_of(reservation, book.node)
        if shares is None or any(card == index for card, _ in shares):
            found.append(reservation)
    return found


def _fits(book: Book, gone: frozenset[str], pod_request: PodRequest, index: int) -> bool:
    one_card = PodRequest(pod_request.uid, _single(pod_request.demand), pod_request.priority)
    return any(room.card.index == index for room in fitting_cards(without(book, gone), one_card))


def _single(demand: Demand) -> Demand:
    """The part of the demand that one card carries."""
    share = demand.per_card
    return replace(demand, mem=share.mem, core=share.core, cards=1)


def _cost(book: Book, victims: frozenset[str]) -> Cost:
    """Kubernetes' own order: the lowest top priority, then the lowest sum, then the fewest pods.

    As there, the sum counts from the lowest priority that can be, so that more victims never cost less.
    """
    priorities = [book.reservations[uid].priority for uid in victims]
    top = max(priorities, default=_LOWEST)
    return top, sum(priority - _LOWEST for priority in priorities), len(priorities)
