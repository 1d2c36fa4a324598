"""Remedies, in any cluster: each makes the pod fit, and none is larger than needed."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.objects import Node, Pod
from gpushare.scheduling.advice.remedies import RemedyKind, applied, remedies_on, shrunk, spread
from gpushare.scheduling.book import Book, without
from gpushare.scheduling.filtering import filter_nodes
from gpushare.scheduling.fitting import PodRequest, Rejection, fits, place
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.snapshot import books_of
from tests.property.strategies import (
    NODES,
    bound_pods,
    crowded,
    ledgers,
    nodes,
    pending_pods,
    pod_requests,
    preemptors,
    several,
)
from tests.support.builders.scheduling import cluster


@st.composite
def objects(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    pods = draw(several(lambda uid: bound_pods(uid, NODES), "p", 6))
    return [draw(nodes(name)) for name in NODES], [
        *pods,
        *draw(several(lambda uid: pending_pods(uid, NODES), "q", 2)),
    ]


@given(objects())
def test_books_of_a_list_are_those_of_a_ledger_that_watches(found: tuple[list[Node], list[Pod]]) -> None:
    listed_nodes, pods = found
    ledger = cluster(*listed_nodes, *pods)
    assert books_of(listed_nodes, pods, {}) == dict(ledger.books)


@given(ledgers(), pod_requests())
def test_reasons_are_those_of_the_extender(ledger: Ledger, request: PodRequest) -> None:
    outcome = filter_nodes(ledger, request, list(ledger.books))
    for name, text in (outcome.failed | outcome.unresolvable).items():
        rejection = place(ledger.books[name], request)
        assert isinstance(rejection, Rejection)
        assert rejection.text == text


@given(ledgers(), pod_requests())
def test_each_remedy_of_a_node_makes_the_pod_fit(ledger: Ledger, request: PodRequest) -> None:
    for book in ledger.books.values():
        check_remedies(book, request)


@given(crowded(), preemptors())
def test_each_remedy_of_a_crowded_node_makes_the_pod_fit(ledger: Ledger, request: PodRequest) -> None:
    check_remedies(ledger.books["n0"], request)


def check_remedies(book: Book, request: PodRequest) -> None:
    for remedy in remedies_on(book, request):
        assert not fits(book, request)
        assert fits(*applied(remedy, book, request)), remedy
        for uid in remedy.pods:
            assert not fits(without(book, remedy.pods - {uid}), request)
        for card in remedy.cards:
            less = replace(remedy, cards=tuple(set(remedy.cards) - {card}))
            assert not fits(*applied(less, book, request))


@given(ledgers(), pod_requests())
def test_the_smaller_request_is_the_largest_that_fits(ledger: Ledger, request: PodRequest) -> None:
    books = list(ledger.books.values())
    found = shrunk(books, request)
    units = found.units if found else 0
    if found:
        assert fits(*applied(found, ledger.books[found.node], request))
    for book in books:
        for more in range(units + 1, request.demand.per_card.mem):
            larger = replace(request, demand=replace(request.demand, mem=more * request.demand.cards))
            assert not fits(book, larger)


@given(ledgers(), pod_requests())
def test_the_request_fits_when_it_is_spread(ledger: Ledger, request: PodRequest) -> None:
    found = spread(ledger.books.values(), request)
    if found:
        assert found.kind is RemedyKind.SPREAD
        assert found.gpus > request.demand.cards
        assert fits(*applied(found, ledger.books[found.node], request))
