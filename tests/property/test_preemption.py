"""Preempt, in any cluster: the victims are sufficient, all necessary, and of lower priority."""

from hypothesis import given
from hypothesis import strategies as st

from gpushare.scheduling.book import Book, without
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.preemption import _on_card, _only_card, preempt, victims_on
from tests.property.strategies import crowded, preemptors

proposals = st.lists(st.sampled_from(("p0", "p1", "p2", "p3", "stranger")), unique=True, max_size=4)


def fits(book: Book, who: PodRequest, gone: frozenset[str]) -> bool:
    """Whether the pod fits once these and all terminating pods are gone."""
    going = frozenset(r.uid for r in book.reservations.values() if r.terminating)
    return not isinstance(place(without(book, going | gone), who), Rejection)


def lower(book: Book, who: PodRequest) -> frozenset[str]:
    return frozenset(r.uid for r in book.reservations.values() if r.priority < who.priority)


@given(crowded(), preemptors(), proposals)
def test_the_victims_are_enough(ledger: Ledger, who: PodRequest, proposed: list[str]) -> None:
    for name, victims in preempt(ledger, who, {"n0": proposed, "unknown": proposed}).items():
        assert fits(ledger.books[name], who, frozenset(victims))


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
        assert not fits(book, who, lower(book, who))
        assert not fits(book, who, frozenset(proposed))


@given(crowded(), preemptors(), proposals)
def test_an_answer_names_at_least_one_victim(ledger: Ledger, who: PodRequest, proposed: list[str]) -> None:
    """kube-scheduler drops the whole preemption over a node with no victims."""
    if proposed:
        assert victims_on(ledger.books["n0"], who, tuple(proposed)) != ()


@given(crowded(), preemptors(), proposals)
def test_a_choice_that_is_enough_is_kept_as_it_is(
    ledger: Ledger, who: PodRequest, proposed: list[str]
) -> None:
    book = ledger.books["n0"]
    found = victims_on(book, who, tuple(proposed))
    assert (found == tuple(proposed)) or not fits(book, who, frozenset(proposed))


@given(crowded(), preemptors(), proposals)
def test_no_chosen_victim_is_unnecessary_or_too_important(
    ledger: Ledger, who: PodRequest, proposed: list[str]
) -> None:
    book = ledger.books["n0"]
    found = victims_on(book, who, tuple(proposed))
    if found is None or found == tuple(proposed):
        return
    ours = frozenset(found) & book.reservations.keys()
    assert ours <= lower(book, who)
    assert not any(book.reservations[uid].terminating for uid in ours)
    for uid in ours:
        assert not fits(book, who, ours - {uid})


@given(crowded(), preemptors(), proposals)
def test_unknown_pods_stay_in_every_answer(ledger: Ledger, who: PodRequest, proposed: list[str]) -> None:
    book = ledger.books["n0"]
    found = victims_on(book, who, tuple(proposed))
    if found is None:
        return
    assert [uid for uid in found if uid not in book.reservations] == [
        uid for uid in proposed if uid not in book.reservations
    ]


@given(crowded(), preemptors(), proposals)
def test_preempt_changes_nothing(ledger: Ledger, who: PodRequest, proposed: list[str]) -> None:
    before = {name: (book, book.usages) for name, book in ledger.books.items()}
    preempt(ledger, who, {"n0": proposed})
    assert {name: (book, book.usages) for name, book in ledger.books.items()} == before
