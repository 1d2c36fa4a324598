"""Filter, bind and prioritize agree with each other, in any cluster."""

from dataclasses import replace
from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from gpushare.model.demand import Amount, Demand
from gpushare.model.modes import Mode
from gpushare.scheduling.advice.inspection import explain_steps, inspect
from gpushare.scheduling.book import (
    Book,
    Nominee,
    Reservation,
    reserved_shares,
    with_reservation,
    without,
)
from gpushare.scheduling.filtering import filter_nodes, filter_steps
from gpushare.scheduling.fitting import PodRequest, Rejection, insufficient, place
from gpushare.scheduling.ledger import Ledger
from tests.property.strategies import (
    MODES,
    NODES,
    PLACEMENTS,
    ledgers,
    pod_requests,
    small_demands,
    waited_for,
)
from tests.support.builders.scheduling import cluster, demand, node, pod, score
from tests.support.steps import finished

ASKED = (*NODES, "unknown")


@given(ledgers(), pod_requests())
def test_filter_agrees_with_bind_on_every_node(ledger: Ledger, who: PodRequest) -> None:
    outcome = filter_nodes(ledger, who, ASKED)
    for name in NODES:
        found = place(ledger.books[name], who)
        if isinstance(found, Rejection):
            reported = outcome.unresolvable if found.unresolvable else outcome.failed
            assert reported[name] == found.text
        assert (name in outcome.passed) == (not isinstance(found, Rejection))
    assert len(outcome.passed) + len(outcome.failed) + len(outcome.unresolvable) == len(ASKED)


@given(ledgers(), pod_requests())
def test_the_text_of_a_node_does_not_depend_on_the_pods_there(ledger: Ledger, who: PodRequest) -> None:
    for name in NODES:
        book = ledger.books[name]
        found = place(book, who)
        empty = place(Book(name, book.node), who)
        if isinstance(found, Rejection):
            assert found == (empty if isinstance(empty, Rejection) else Rejection(insufficient(who.demand)))


@given(ledgers(), pod_requests(), st.integers(1, len(NODES)))
def test_a_shortlist_names_the_best_nodes_and_rejects_no_other(
    ledger: Ledger, who: PodRequest, most: int
) -> None:
    whole = filter_nodes(ledger, who, ASKED)
    short = finished(filter_steps(ledger, who, ASKED, most))
    assert len(short.passed) == len(set(short.passed)) == min(most, len(whole.passed))
    left = set(whole.passed).difference(short.passed)
    assert len(left) == len(whole.passed) - len(short.passed)
    worst = min((score(ledger, who, name) for name in short.passed), default=0)
    assert all(score(ledger, who, name) <= worst for name in left)
    assert (short.failed, short.unresolvable) == (whole.failed, whole.unresolvable)
    assert finished(filter_steps(ledger, who, ASKED)) == whole


@given(ledgers(), pod_requests())
def test_requests_change_nothing_and_repetitions_return_the_same_answer(
    ledger: Ledger, who: PodRequest
) -> None:
    before = {name: (book, book.usages) for name, book in ledger.books.items()}
    first = filter_nodes(ledger, who, ASKED), [score(ledger, who, name) for name in ASKED]
    inspect(ledger)
    finished(explain_steps(ledger, who))
    assert (filter_nodes(ledger, who, ASKED), [score(ledger, who, name) for name in ASKED]) == first
    assert {name: (book, book.usages) for name, book in ledger.books.items()} == before


@given(ledgers(), pod_requests())
def test_an_explanation_exists_exactly_if_no_node_fits(ledger: Ledger, who: PodRequest) -> None:
    assert (finished(explain_steps(ledger, who)) is None) == bool(filter_nodes(ledger, who, NODES).passed)


def unlike(book: Book, index: int, wanted: Demand) -> bool:
    """Whether a user on the GPU differs from the demand's only user."""
    assert book.node is not None
    others: set[int | None] = set()
    for reservation in book.reservations.values():
        shares = reserved_shares(reservation, book.node)
        if shares is None or index in dict(shares):
            others |= reservation.demand.users
    return bool(wanted.users) and not others <= wanted.users


@given(ledgers(nominees=0), pod_requests())
def test_a_pod_is_placed_exactly_where_enough_gpus_fit(ledger: Ledger, who: PodRequest) -> None:
    part = who.demand.per_card
    for name in NODES:
        book = ledger.books[name]
        assert book.node is not None
        one_user = book.node.mode is Mode.MPS and not book.node.multi_user
        fitting = [
            usage
            for usage in book.usages
            if usage.schedulable
            and usage.free.mem >= part.mem
            and usage.free.core >= part.core
            and not (one_user and unlike(book, usage.card.index, who.demand))
        ]
        serves = (
            book.node.closed is None
            and (book.node.mode is not Mode.CORE_MEM or who.demand.core > 0)
            and (book.node.mode is not Mode.MPS or who.demand.cards == 1)
            and not (one_user and None in who.demand.users)
        )
        found = place(book, who)
        assert isinstance(found, Rejection) == (not serves or len(fitting) < who.demand.cards)
        if not isinstance(found, Rejection):
            assert {index for index, _ in found} <= {usage.card.index for usage in fitting}
            assert len({index for index, _ in found}) == who.demand.cards
            assert all(share == part for _, share in found)


@given(ledgers(nominees=0), pod_requests(), st.sampled_from(("binpack", "spread")))
def test_no_gpu_left_out_suits_the_policy_better(ledger: Ledger, who: PodRequest, policy: str) -> None:
    part = who.demand.per_card
    for name in NODES:
        book = ledger.books[name]
        found = place(book, PodRequest(who.uid, who.demand, who.priority, policy))
        if isinstance(found, Rejection):
            continue
        sign = 1 if policy == "binpack" else -1
        taken = {index for index, _ in found}
        keys = {
            r.card.index: (sign * r.free.mem, r.card.index)
            for r in book.usages
            if r.fits(part, who.demand.users)
        }
        best = sorted(keys, key=lambda index: keys[index])[: who.demand.cards]
        assert taken == set(best)


@given(ledgers(), pod_requests())
def test_eviction_does_not_help_if_the_result_denies_it(ledger: Ledger, who: PodRequest) -> None:
    for name in filter_nodes(ledger, who, NODES).unresolvable:
        book = ledger.books[name]
        assert isinstance(place(without(book, frozenset(book.reservations)), who), Rejection)


@given(ledgers(), pod_requests())
def test_a_pod_that_has_been_placed_leaves_no_gpu_overcommitted_that_was_not(
    ledger: Ledger, who: PodRequest
) -> None:
    for name in NODES:
        book = ledger.books[name]
        found = place(book, who)
        if not isinstance(found, Rejection):
            after = with_reservation(book, Reservation("new", "default/new", who.demand, found))
            assert len(after.overcommitted) == len(book.overcommitted)


def could_all_be_in(book: Book, waiting: list[Nominee]) -> bool:
    """Whether there is a card for every nominee (of one card), tried out in every combination."""
    for cards in product([usage.card.index for usage in book.usages], repeat=len(waiting)):
        used = {index: Amount(0, 0) for index in cards}
        for index, nominee in zip(cards, waiting, strict=True):
            part = nominee.demand.per_card
            used[index] = Amount(used[index].mem + part.mem, used[index].core + part.core)
        usages = {usage.card.index: usage for usage in book.usages}
        if all(usages[index].fits(total) for index, total in used.items()):
            return True
    return False


@given(waited_for(), st.integers(1, 8), st.integers(0, 3), st.sampled_from(PLACEMENTS))
def test_units_for_nominees_of_no_lower_priority_are_never_taken(
    ledger: Ledger, units: int, priority: int, placement: str | None
) -> None:
    """The nominees that fit once the terminating pods are gone still fit with the pod placed."""
    book = ledger.books["n0"]
    who = PodRequest("seeker", demand(units), priority, placement)
    found = place(book, who)
    if isinstance(found, Rejection):
        return
    later = without(book, frozenset(r.uid for r in book.reservations.values() if r.terminating))
    competitors = place_all(later, [n for n in book.nominees.values() if n.priority >= priority])
    assert could_all_be_in(with_reservation(later, Reservation("new", "", who.demand, found)), competitors)


@given(waited_for(), st.integers(1, 8), st.sampled_from(PLACEMENTS))
def test_a_single_nominee_is_placed_once_its_units_are_free_after_any_pods(
    ledger: Ledger, units: int, placement: str | None
) -> None:
    book = ledger.books["n0"]
    first = min(book.nominees.values(), key=lambda nominee: nominee.turn)
    alone = replace(book, nominees={first.uid: first})
    itself = request_of(first)
    later = without(alone, frozenset(r.uid for r in book.reservations.values() if r.terminating))
    found = place(alone, PodRequest("seeker", demand(units), 0, placement))
    if isinstance(place(later, itself), Rejection) or isinstance(found, Rejection):
        return
    after = with_reservation(later, Reservation("new", "", demand(units), found))
    assert not isinstance(place(after, itself), Rejection)


def request_of(nominee: Nominee) -> PodRequest:
    return PodRequest(nominee.uid, nominee.demand, nominee.priority, nominee.placement)


@given(waited_for())
def test_of_the_nominees_of_a_node_one_fits_if_one_fits_alone(ledger: Ledger) -> None:
    """Otherwise they wait for each other for good: kube-scheduler keeps nominations that it did not make."""
    here = ledger.books["n0"]
    book = without(here, frozenset(r.uid for r in here.reservations.values() if r.terminating))
    fitting = [n for n in book.nominees.values() if not isinstance(place(book, request_of(n)), Rejection)]
    assert len(fitting) >= min(1, len(place_all(book, list(book.nominees.values()))))


def place_all(book: Book, nominees: list[Nominee]) -> list[Nominee]:
    """The nominees that fit, the highest priority first, as the scheduler will place them."""
    placed = []
    for nominee in sorted(nominees, key=lambda nominee: nominee.turn):
        found = place(replace(book, nominees={}), request_of(nominee))
        if not isinstance(found, Rejection):
            placed.append(nominee)
            book = with_reservation(book, Reservation(nominee.uid, "", nominee.demand, found))
    return placed


@given(ledgers(), pod_requests())
def test_a_score_is_0_to_10_and_0_where_the_pod_does_not_fit(ledger: Ledger, who: PodRequest) -> None:
    for name in ASKED:
        points = score(ledger, who, name)
        assert 0 <= points <= 10
        if name not in filter_nodes(ledger, who, NODES).passed:
            assert points == 0


@given(
    small_demands(8),
    st.sampled_from(("binpack", "spread")),
    st.sampled_from(MODES),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_of_two_nodes_the_one_that_suits_the_policy_never_scores_less(
    wanted: Demand, policy: str, mode: Mode, one: int, other: int
) -> None:
    """Two nodes of one size, so much in use on one card of each."""
    ledger = cluster(
        *(node(name, 12, 12, placement=policy, mode=mode) for name in NODES),
        *(pod(f"on-{name}", used, at=name, card=0) for name, used in zip(NODES, (one, other), strict=True)),
    )
    who = PodRequest("seeker", wanted)
    left = {}
    for name in NODES:
        book = ledger.books[name]
        found = place(book, who)
        assume(not isinstance(found, Rejection))
        assert not isinstance(found, Rejection)
        left[name] = sum(book.usages[index].free.mem for index, _ in found)
    low, high = sorted(NODES, key=lambda name: left[name])
    better, worse = (low, high) if policy == "binpack" else (high, low)
    assert score(ledger, who, better) >= score(ledger, who, worse)
