"""Preempt: the pods of a node to evict so that a pod of higher priority fits on a GPU.

kube-scheduler selects victims by node totals and does not know GPUs: evicting them may free units on
different GPUs, to no avail. Its selection is kept if it frees enough on one GPU, and otherwise replaced by
the set with the lowest cost on one GPU.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, Reservation, make_book, reserved_shares, without
from gpushare.scheduling.fitting import PodRequest, Rejection, fitting_cards, place, unfit
from gpushare.scheduling.ledger import Ledger

Cost = tuple[int, int, int]
_LOWEST: Final = -(2**31)


def preempt(
    ledger: Ledger, pod_request: PodRequest, proposed: Mapping[str, Iterable[str]]
) -> dict[str, tuple[str, ...]]:
    """UIDs of the pods to evict, by proposed node; nodes where evictions do not help are omitted."""
    found = victims_by_node(ledger, pod_request, proposed)
    return {name: victims for name, victims in found if victims is not None}


def victims_by_node(
    ledger: Ledger, pod_request: PodRequest, proposed: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """The proposed nodes one after the other, as each takes milliseconds; None if evictions do not help."""
    for name, uids in proposed.items():
        book = ledger.books.get(name)
        yield name, victims_on(book, pod_request, tuple(uids)) if book else None


def victims_on(book: Book, pod_request: PodRequest, proposed: tuple[str, ...]) -> tuple[str, ...] | None:
    """The victims on one node; None if evicting all pods of lower priority does not help."""
    if unfit(book, pod_request.demand):
        return None
    terminating = frozenset(r.uid for r in book.reservations.values() if r.terminating)
    if not isinstance(place(without(book, terminating | frozenset(proposed)), pod_request), Rejection):
        return proposed
    managed = _cheapest(without(book, terminating), pod_request, frozenset(proposed))
    if managed is None:
        return None
    unmanaged = tuple(uid for uid in proposed if uid not in book.reservations)
    # A node without victims would make kube-scheduler drop the preemption on all nodes.
    return unmanaged + tuple(sorted(managed)) or None


def _cheapest(book: Book, pod_request: PodRequest, preferred: frozenset[str]) -> frozenset[str] | None:
    """The victims with the lowest cost: on as many GPUs as the demand needs, otherwise on any GPUs."""

    def fits(evicted: frozenset[str]) -> bool:
        return not isinstance(place(without(book, evicted), pod_request), Rejection)

    per_card = [
        victims
        for usage in book.usages
        if (victims := _victims_on_card(book, pod_request, usage.card.index, preferred)) is not None
    ]
    per_card.sort(key=lambda victims: _cost(book, victims))
    all_lower = _lower(book.reservations.values(), pod_request)
    cheap = frozenset[str]().union(*per_card[: pod_request.demand.cards])
    return next((_reprieved(book, some, preferred, fits) for some in (cheap, all_lower) if fits(some)), None)


def _victims_on_card(
    book: Book, pod_request: PodRequest, index: int, preferred: frozenset[str]
) -> frozenset[str] | None:
    """Pods of lower priority to evict from a GPU for one GPU's amount; None if that is not enough."""
    on_card = _on_card(book, index)
    # Nominated pods choose among all GPUs of the node.
    seen = book if book.nominees else _only_card(book, index, on_card)

    def fits(evicted: frozenset[str]) -> bool:
        return _fits_without(seen, evicted, pod_request, index)

    lower = _lower(on_card, pod_request)
    return _reprieved(book, lower, preferred, fits) if fits(lower) else None


def _lower(reservations: Iterable[Reservation], pod_request: PodRequest) -> frozenset[str]:
    """Candidates: bound pods of lower priority; kube-scheduler knows no others."""
    return frozenset(r.uid for r in reservations if r.settled and r.priority < pod_request.priority)


def _reprieved(
    book: Book, victims: frozenset[str], preferred: frozenset[str], fits: Callable[[frozenset[str]], bool]
) -> frozenset[str]:
    """The victims minus the pods that can stay, tried from the highest priority down."""
    for uid in sorted(victims, key=lambda u: (-book.reservations[u].priority, u in preferred, u)):
        if fits(victims - {uid}):
            victims -= {uid}
    return victims


def _on_card(book: Book, index: int) -> list[Reservation]:
    """Reservations that count against a GPU, including those with unknown GPUs."""
    assert book.node is not None  # noqa: S101 - a book without a node has no usages
    found = []
    for reservation in book.reservations.values():
        shares = reserved_shares(reservation, book.node)
        if shares is None or any(card == index for card, _ in shares):
            found.append(reservation)
    return found


def _only_card(book: Book, index: int, reservations: Iterable[Reservation]) -> Book:
    """The book as if its node had only this GPU: several times smaller, and the same for this GPU."""
    assert book.node is not None  # noqa: S101 - as above
    cards = tuple(card for card in book.node.cards if card.index == index)
    only = replace(book.node, cards=cards)
    return make_book(book.name, only, book.unhealthy, {r.uid: r for r in reservations}, {})


def _fits_without(book: Book, evicted: frozenset[str], pod_request: PodRequest, index: int) -> bool:
    one_card = PodRequest(pod_request.uid, _single(pod_request.demand), pod_request.priority)
    return any(usage.card.index == index for usage in fitting_cards(without(book, evicted), one_card))


def _single(demand: Demand) -> Demand:
    """The demand's amount on one GPU, as a demand."""
    share = demand.per_card
    return replace(demand, mem=share.mem, core=share.core, cards=1)


def _cost(book: Book, victims: frozenset[str]) -> Cost:
    """The order of kube-scheduler: the lowest top priority, then the lowest sum, then the fewest pods.

    Priorities are summed relative to the lowest possible priority, so that more victims never cost less.
    """
    priorities = [book.reservations[uid].priority for uid in victims]
    top = max(priorities, default=_LOWEST)
    return top, sum(priority - _LOWEST for priority in priorities), len(priorities)
