"""Preempt, in any cluster: the proposed victims are kept, and the least is added so that the pod fits."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, combinations
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.disruption import DisruptionBudget
from gpushare.scheduling.book import Book, without
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.preemption import BudgetsOf, Victims, _on_card, _only_card, victims_on, violating
from tests.property.strategies import crowded, preemptors
from tests.support.builders.scheduling import budget

PODS = ("p0", "p1", "p2", "p3", "p4", "p5")
proposals = st.lists(st.sampled_from(("p0", "p1", "p2", "p3", "stranger")), unique=True, max_size=4)


@st.composite
def budgets(draw: st.DrawFn) -> BudgetsOf:
    """Up to two budgets, each of some pods."""
    chosen: list[tuple[DisruptionBudget, set[str]]] = [
        (budget(f"b{index}", allowed=draw(st.integers(0, 2))), draw(st.sets(st.sampled_from(PODS))))
        for index in range(draw(st.integers(0, 2)))
    ]
    return lambda uid: [found for found, uids in chosen if uid in uids]


class Case(NamedTuple):
    """A node, a pod that preempts there, and the victims that kube-scheduler proposes."""

    book: Book
    who: PodRequest
    proposed: tuple[str, ...]
    budgets_of: BudgetsOf

    @property
    def found(self) -> Victims | None:
        return victims_on(self.book, self.who, self.proposed, self.budgets_of)

    def fits(self, gone: Iterable[str]) -> bool:
        """Whether the pod fits once these and all terminating pods are gone."""
        return fits(self.book, self.who, frozenset(gone))


@st.composite
def cases(draw: st.DrawFn, nominees: int = 1) -> Case:
    book = draw(crowded(nominees)).books["n0"]
    return Case(book, draw(preemptors()), tuple(draw(proposals)), draw(budgets()))


def fits(book: Book, who: PodRequest, gone: frozenset[str]) -> bool:
    going = frozenset(r.uid for r in book.reservations.values() if r.terminating)
    return not isinstance(place(without(book, going | gone), who), Rejection)


def lower(book: Book, who: PodRequest) -> frozenset[str]:
    return frozenset(r.uid for r in book.reservations.values() if r.priority < who.priority)


def added(found: Victims, proposed: Iterable[str]) -> frozenset[str]:
    return frozenset(found.uids) - frozenset(proposed)


@given(cases())
def test_the_proposed_victims_are_kept_in_their_order(case: Case) -> None:
    if found := case.found:
        assert tuple(uid for uid in found.uids if uid in case.proposed) == case.proposed
        assert len(set(found.uids)) == len(found.uids)


@given(cases())
def test_the_victims_are_enough(case: Case) -> None:
    if found := case.found:
        assert found.uids
        assert case.fits(found.uids)


@given(cases())
def test_no_added_victim_is_too_important_or_gone_already(case: Case) -> None:
    if found := case.found:
        extra = added(found, case.proposed)
        assert extra <= lower(case.book, case.who)
        assert not any(case.book.reservations[uid].terminating for uid in extra)


@given(cases(nominees=0))
def test_no_proper_subset_of_the_added_victims_is_enough(case: Case) -> None:
    if found := case.found:
        extra = added(found, case.proposed)
        for fewer in chain.from_iterable(combinations(extra, size) for size in range(len(extra))):
            assert not case.fits((*case.proposed, *fewer))


@given(cases())
def test_each_added_victim_is_necessary_although_nominated_pods_wait(case: Case) -> None:
    if found := case.found:
        for uid in added(found, case.proposed):
            assert not case.fits(frozenset(found.uids) - {uid})


@given(cases(nominees=0))
def test_no_budget_is_exceeded_for_a_pod_on_one_gpu_where_other_victims_are_enough(case: Case) -> None:
    found, reservations = case.found, case.book.reservations
    uncovered = {
        uid
        for uid in lower(case.book, case.who)
        if not list(case.budgets_of(uid)) and not reservations[uid].terminating
    }
    if found and case.who.demand.cards == 1 and case.fits({*case.proposed, *uncovered}):
        assert found.violations == 0


@given(cases())
def test_the_violations_are_those_of_the_added_victims_after_the_proposed_ones(case: Case) -> None:
    if found := case.found:
        extra = [uid for uid in found.uids if uid not in case.proposed]
        assert found.violations == len(violating(extra, case.budgets_of, case.proposed))


@given(cases())
def test_the_answer_is_always_the_same(case: Case) -> None:
    turned = dict(reversed(list(case.book.reservations.items())))
    assert case._replace(book=replace(case.book, reservations=turned)).found == case.found


@given(crowded())
def test_a_gpu_alone_is_as_full_as_it_is_in_its_node(ledger: Ledger) -> None:
    """Victims on one GPU are looked for in that smaller book."""
    book = ledger.books["n0"]
    for usage in book.usages:
        index = usage.card.index
        assert _only_card(book, index, _on_card(book, index)).usages == (usage,)


@given(crowded(), preemptors(), proposals)
def test_a_node_is_omitted_only_where_evicting_every_lower_pod_is_not_enough(
    ledger: Ledger, who: PodRequest, proposed: list[str]
) -> None:
    book = ledger.books["n0"]
    if victims_on(book, who, ("stranger", *proposed)) is None:
        assert not fits(book, who, lower(book, who) | frozenset(proposed))
        assert not fits(book, who, frozenset(proposed))


@given(crowded(), preemptors(), proposals)
def test_preempt_changes_nothing(ledger: Ledger, who: PodRequest, proposed: list[str]) -> None:
    before = {name: (book, book.usages) for name, book in ledger.books.items()}
    victims_on(ledger.books["n0"], who, tuple(proposed))
    assert {name: (book, book.usages) for name, book in ledger.books.items()} == before
