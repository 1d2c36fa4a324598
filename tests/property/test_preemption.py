"""Preempt, in any cluster: the proposed victims are kept, and the least is added so that the pod fits."""

from dataclasses import replace
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.disruption import DisruptionBudget
from gpushare.scheduling.book import Book, without
from gpushare.scheduling.disruption import BudgetsOf, violating
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.preemption import Victims, _on_card, _only_card, victims_on
from tests.builders.scheduling import budget
from tests.property.strategies import crowded, preemptors

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


def fits(book: Book, who: PodRequest, gone: frozenset[str]) -> bool:
    """Whether the pod fits once these and all terminating pods are gone."""
    going = frozenset(r.uid for r in book.reservations.values() if r.terminating)
    return not isinstance(place(without(book, going | gone), who), Rejection)


def lower(book: Book, who: PodRequest) -> frozenset[str]:
    return frozenset(r.uid for r in book.reservations.values() if r.priority < who.priority)


def added(found: Victims, proposed: list[str]) -> frozenset[str]:
    return frozenset(found.uids) - frozenset(proposed)


@given(crowded(), preemptors(), proposals, budgets())
def test_the_proposed_victims_are_kept_in_their_order(
    ledger: Ledger, who: PodRequest, proposed: list[str], budgets_of: BudgetsOf
) -> None:
    found = victims_on(ledger.books["n0"], who, tuple(proposed), budgets_of)
    if found:
        assert [uid for uid in found.uids if uid in proposed] == proposed
        assert len(set(found.uids)) == len(found.uids)


@given(crowded(), preemptors(), proposals, budgets())
def test_the_victims_are_enough(
    ledger: Ledger, who: PodRequest, proposed: list[str], budgets_of: BudgetsOf
) -> None:
    found = victims_on(ledger.books["n0"], who, tuple(proposed), budgets_of)
    if found:
        assert found.uids
        assert fits(ledger.books["n0"], who, frozenset(found.uids))


@given(crowded(), preemptors(), proposals, budgets())
def test_no_added_victim_is_too_important_or_gone_already(
    ledger: Ledger, who: PodRequest, proposed: list[str], budgets_of: BudgetsOf
) -> None:
    book = ledger.books["n0"]
    found = victims_on(book, who, tuple(proposed), budgets_of)
    if found:
        assert added(found, proposed) <= lower(book, who)
        assert not any(book.reservations[uid].terminating for uid in added(found, proposed))


@given(crowded(nominees=0), preemptors(), proposals, budgets())
def test_no_proper_subset_of_the_added_victims_is_enough(
    ledger: Ledger, who: PodRequest, proposed: list[str], budgets_of: BudgetsOf
) -> None:
    book = ledger.books["n0"]
    found = victims_on(book, who, tuple(proposed), budgets_of)
    if found:
        extra = added(found, proposed)
        for fewer in chain.from_iterable(combinations(extra, size) for size in range(len(extra))):
            assert not fits(book, who, frozenset((*proposed, *fewer)))


@given(crowded(), preemptors(), proposals, budgets())
def test_each_added_victim_is_necessary_although_nominated_pods_wait(
    ledger: Ledger, who: PodRequest, proposed: list[str], budgets_of: BudgetsOf
) -> None:
    book = ledger.books["n0"]
    found = victims_on(book, who, tuple(proposed), budgets_of)
    if found:
        for uid in added(found, proposed):
            assert not fits(book, who, frozenset(found.uids) - {uid})


@given(crowded(nominees=0), preemptors(), proposals, budgets())
def test_no_budget_is_exceeded_for_a_pod_on_one_gpu_where_other_victims_are_enough(
    ledger: Ledger, who: PodRequest, proposed: list[str], budgets_of: BudgetsOf
) -> None:
    book = ledger.books["n0"]
    found = victims_on(book, who, tuple(proposed), budgets_of)
    uncovered = {
        uid
        for uid in lower(book, who)
        if not list(budgets_of(uid)) and not book.reservations[uid].terminating
    }
    if found and who.demand.cards == 1 and fits(book, who, frozenset({*proposed, *uncovered})):
        assert found.violations == 0


@given(crowded(), preemptors(), proposals, budgets())
def test_the_violations_are_those_of_the_added_victims_after_the_proposed_ones(
    ledger: Ledger, who: PodRequest, proposed: list[str], budgets_of: BudgetsOf
) -> None:
    found = victims_on(ledger.books["n0"], who, tuple(proposed), budgets_of)
    if found:
        extra = [uid for uid in found.uids if uid not in proposed]
        assert found.violations == len(violating(extra, budgets_of, proposed))


@given(crowded(), preemptors(), proposals, budgets())
def test_the_answer_is_always_the_same(
    ledger: Ledger, who: PodRequest, proposed: list[str], budgets_of: BudgetsOf
) -> None:
    book = ledger.books["n0"]
    found = victims_on(book, who, tuple(proposed), budgets_of)
    turned = dict(reversed(list(book.reservations.items())))
    assert victims_on(replace(book, reservations=turned), who, tuple(proposed), budgets_of) == found


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
