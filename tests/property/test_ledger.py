"""The ledger under any interleaving of cluster events, compared with a naive model that recounts everything.

``HonestCluster`` has only events that can happen while one extender binds and nodes do not lose GPUs:
no GPU is ever over-committed. In ``CrowdedCluster`` compute is scarce. ``HostileCluster`` adds all other
events: other writers, edits by users, wrong agents, nodes that shrink. The books must still be right.
"""

from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpushare.model.cards import Card
from gpushare.model.demand import Demand, demand_of
from gpushare.model.modes import Mode
from gpushare.model.objects import Node, Pod
from gpushare.scheduling.events import (
    Confirmed,
    LedgerEvent,
    NodeDeleted,
    NodeObserved,
    PodDeleted,
    PodObserved,
    Released,
    Reserved,
    UnhealthyObserved,
)
from gpushare.scheduling.filtering import filter_nodes, score_steps
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from gpushare.scheduling.ledger import EMPTY_LEDGER, Ledger, apply, overcommitted
from gpushare.scheduling.score_cache import ScoreCache
from tests.property.ledger_model import NaiveLedger, NaiveReservation
from tests.property.strategies import NODES, PLACEMENTS, nodes, small_demands
from tests.support.builders import scheduling
from tests.support.builders.scheduling import demand, pod
from tests.support.steps import finished

pytestmark = pytest.mark.timeout(900)
"""A failure may take hypothesis five minutes to shrink; a test that passes takes seconds."""

names = st.sampled_from(NODES)
picks = st.integers(0, 50)
some_cards = st.frozensets(st.integers(0, 3), max_size=2)
claims = st.sampled_from(((0,), (1,), (2,), (0, 1), (1, 2), None))
ASKERS = (
    PodRequest("asker", demand(4)),
    PodRequest("asker", demand(2, user=1000), placement="spread"),
    PodRequest("asker", demand(4, core=30)),
)
MOST_PODS = 7
SWAPPED = {
    Mode.SHARE: Mode.CGPU,
    Mode.CGPU: Mode.SHARE,
    Mode.CORE_MEM: Mode.MPS,
    Mode.MPS: Mode.CORE_MEM,
}
modes = st.sampled_from((None, *SWAPPED))


class HonestCluster(RuleBasedStateMachine):
    """One extender, valid requests, nodes that only grow."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = EMPTY_LEDGER
        self.model = NaiveLedger()
        self.events: list[LedgerEvent] = []
        self.machines: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.born = 0

    def happens(self, event: LedgerEvent) -> None:
        self.events.append(event)
        self.ledger = apply(self.ledger, event)

    def shows(self, seen: Pod) -> None:
        self.pods[seen.uid] = seen
        self.model.sees(seen)
        self.happens(PodObserved(seen))

    def shows_node(self, node: Node) -> None:
        self.machines[node.name] = self.model.nodes[node.name] = node
        self.happens(NodeObserved(node))

    def picked(self, pick: int) -> Pod:
        return self.pods[sorted(self.pods)[pick % len(self.pods)]]

    def some_pods(self) -> bool:
        return bool(self.pods)

    def few_pods(self) -> bool:
        return len(self.pods) < MOST_PODS

    def a_new_uid(self) -> str:
        self.born += 1
        return f"p{self.born}"

    # --- nodes ---

    @initialize(first=nodes(NODES[0]), second=nodes(NODES[1]))
    def nodes_come_up(self, first: Node, second: Node) -> None:
        self.shows_node(first)
        self.shows_node(second)

    @rule(name=names, card=st.integers(0, 3), more=st.integers(0, 4), broken=st.booleans())
    def a_node_grows_or_a_card_breaks(self, name: str, card: int, more: int, broken: bool) -> None:  # noqa: FBT001
        cards = {c.index: c for c in self.machines[name].cards}
        old = cards.get(card, Card(card, 0))
        cards[card] = replace(old, units=old.units + more, healthy=not broken)
        self.shows_node(
            replace(self.machines[name], cards=tuple(sorted(cards.values(), key=lambda c: c.index)))
        )

    @rule(name=names)
    def pods_with_whole_gpus_are_gone(self, name: str) -> None:
        free = (replace(c, whole_gpu_pods=(), healthy=True) for c in self.machines[name].cards)
        self.shows_node(replace(self.machines[name], cards=tuple(free)))

    @rule(name=names, placement=st.sampled_from(PLACEMENTS), closed=st.sampled_from((None, "label")))
    def a_node_is_relabelled(self, name: str, placement: str | None, closed: str | None) -> None:
        self.shows_node(replace(self.machines[name], placement=placement, closed=closed))

    @rule(name=names)
    def a_node_changes_its_mode(self, name: str) -> None:
        """To one that divides as much: a node that stops dividing compute over-commits its reservations."""
        node = self.machines[name]
        self.shows_node(replace(node, mode=SWAPPED[node.mode]))

    @rule(name=names)
    def a_node_is_deleted(self, name: str) -> None:
        self.model.nodes.pop(name, None)
        self.happens(NodeDeleted(name))

    @rule(name=names)
    def a_node_comes_back(self, name: str) -> None:
        self.shows_node(self.machines[name])

    @rule(name=names, cards=some_cards)
    def cards_are_listed_as_unhealthy(self, name: str, cards: frozenset[int]) -> None:
        self.model.unhealthy[name] = cards
        self.happens(UnhealthyObserved(name, cards))

    @rule(name=names)
    def the_agent_publishes_the_claims(self, name: str) -> None:
        published = {
            uid: {index: share.mem for index, share in reserved.claim}
            for uid, reserved in self.model.reserved.items()
            if reserved.node == name and reserved.claim is not None
        }
        self.shows_node(replace(self.machines[name], assigned=published))

    # --- pods ---

    @precondition(few_pods)
    @rule(wanted=small_demands(), priority=st.integers(0, 3), name=names, nominated=st.booleans())
    def a_pod_is_created(self, wanted: Demand, priority: int, name: str, nominated: bool) -> None:  # noqa: FBT001
        uid = self.a_new_uid()
        self.shows(pod(uid, wanted, priority=priority, nominated=name if nominated else None))

    @precondition(some_pods)
    @rule(pick=picks, name=names)
    def bind_decides(self, pick: int, name: str) -> None:
        who = self.picked(pick)
        book = self.ledger.books.get(name)
        if who.uid in self.model.reserved or who.node is not None or book is None:
            return
        assert isinstance(who.demand, Demand)
        shares = place(book, PodRequest(who.uid, who.demand, who.priority, who.placement))
        if not isinstance(shares, Rejection):
            mode = self.model.nodes[name].mode
            self.model.reserves(
                who.uid, NaiveReservation(name, who.demand, shares, confirmed=False, mode=mode)
            )
            self.happens(Reserved(who, who.demand, name, shares))

    @precondition(some_pods)
    @rule(pick=picks)
    def the_api_says_yes(self, pick: int) -> None:
        uid = self.picked(pick).uid
        self.model.bind_accepted(uid)
        self.happens(Confirmed(uid))

    @precondition(some_pods)
    @rule(pick=picks)
    def the_api_says_no(self, pick: int) -> None:
        uid = self.picked(pick).uid
        self.model.bind_failed(uid)
        self.happens(Released(uid))

    @precondition(some_pods)
    @rule(pick=picks, terminating=st.booleans())
    def the_watch_shows_a_bound_pod(self, pick: int, terminating: bool) -> None:  # noqa: FBT001
        who = self.picked(pick)
        reserved = self.model.reserved.get(who.uid)
        if reserved is not None:
            self.shows(
                replace(
                    who,
                    node=reserved.node,
                    claim=reserved.claim,
                    mode=reserved.mode,
                    terminating=who.terminating or terminating,
                )
            )

    @precondition(some_pods)
    @rule(pick=picks, terminating=st.booleans())
    def the_watch_is_late(self, pick: int, terminating: bool) -> None:  # noqa: FBT001
        who = self.picked(pick)
        self.shows(replace(who, terminating=who.terminating or terminating))

    @precondition(some_pods)
    @rule(pick=picks, cards=claims, label=st.sampled_from(("1", "2", "3")), mode=modes)
    def a_user_edits_a_bound_pod(
        self, pick: int, cards: tuple[int, ...] | None, label: str, mode: Mode | None
    ) -> None:
        who = self.picked(pick)
        reserved = self.model.reserved.get(who.uid)
        if who.node is None or reserved is None or not reserved.confirmed:
            return
        assert isinstance(who.demand, Demand)
        relabelled = demand_of(who.demand.containers, label)
        wanted = relabelled if isinstance(relabelled, Demand) else who.demand
        self.model.sees(replace(who, demand=wanted))
        edited = pod(who.uid, wanted, at=who.node, card=cards, mode=mode)
        self.happens(PodObserved(replace(edited, priority=who.priority)))

    @precondition(some_pods)
    @rule(pick=picks)
    def a_pod_is_gone(self, pick: int) -> None:
        who = self.picked(pick)
        del self.pods[who.uid]
        self.model.loses(who.uid)
        self.happens(PodDeleted(who.uid))

    @precondition(some_pods)
    @rule(pick=picks)
    def a_pod_finishes(self, pick: int) -> None:
        who = self.picked(pick)
        self.shows(replace(who, finished=True))
        del self.pods[who.uid]

    # --- what must be true ---

    @invariant()
    def no_card_is_promised_more_than_it_has(self) -> None:
        assert list(overcommitted(self.ledger)) == []
        for name, node in self.model.nodes.items():
            for card in node.cards:
                assert min(self.model.free(name, card.index)) >= 0

    @invariant()
    def no_card_mixes_modes_users_of_mps_or_more_pods_than_it_may_hold(self) -> None:
        for name, node in self.model.nodes.items():
            for card in node.cards:
                here = self.model.on_card(name, card.index)
                assert len({reserved.mode for reserved in here}) <= 1
                assert node.pods_per_card == 0 or len(here) <= node.pods_per_card
                users = {c.user for reserved in here for c in reserved.demand.containers if c.mem}
                of_mps = any(reserved.mode is Mode.MPS for reserved in here)
                assert not of_mps or node.multi_user or len(users) <= 1

    @invariant()
    def the_rooms_are_what_a_recount_says(self) -> None:
        for name, book in self.ledger.books.items():
            node = self.model.nodes.get(name)
            assert book.node == node
            assert node or book.unhealthy or book.reservations or book.nominees
            assert [usage.card for usage in book.usages] == list(node.cards if node else ())
            for usage in book.usages:
                assert tuple(usage.free) == self.model.free(name, usage.card.index)
                assert usage.schedulable == self.model.is_open(name, usage.card.index)

    @invariant()
    def the_quick_answer_of_filter_is_the_thorough_one(self) -> None:
        for book in self.ledger.books.values():
            assert book.largest == max((usage.total.mem for usage in book.usages), default=-1)
            if book.fits_up_to >= 0:
                assert fits(book.name, self.ledger, book.fits_up_to)
                assert not fits(book.name, self.ledger, book.fits_up_to + 1)

    @invariant()
    def answers_are_those_of_a_ledger_that_was_never_asked(self) -> None:
        fresh = replace(self.ledger, score_cache=ScoreCache())
        for who in ASKERS:
            assert filter_nodes(self.ledger, who, NODES) == filter_nodes(fresh, who, NODES)
            ours, theirs = (finished(score_steps(each, who, NODES)) for each in (self.ledger, fresh))
            assert ours == theirs

    @invariant()
    def the_indices_agree_with_the_books(self) -> None:
        books = self.ledger.books
        reserved = {uid: name for name, book in books.items() for uid in book.reservations}
        waiting = {uid: name for name, book in books.items() for uid in book.nominees}
        assert reserved == dict(self.ledger.home) == {uid: h.node for uid, h in self.model.reserved.items()}
        assert waiting == dict(self.ledger.nominated) == self.model.waiting
        for uid, name in reserved.items():
            found = self.ledger.reservation(uid)
            assert found == (name, books[name].reservations[uid])
            assert found[1].confirmed == self.model.reserved[uid].confirmed

    def teardown(self) -> None:
        assert apply(EMPTY_LEDGER, *self.events) == self.ledger


def fits(name: str, ledger: Ledger, units: int) -> bool:
    found = place(ledger.books[name], PodRequest("new", Demand((), units, 0, 1)))
    return not isinstance(found, Rejection)


class HostileCluster(HonestCluster):
    """Everything else that can come over a watch."""

    @rule(node=names.flatmap(nodes))
    def a_node_becomes_another(self, node: Node) -> None:
        self.shows_node(node)

    @precondition(lambda self: self.few_pods())
    @rule(wanted=small_demands(), name=names, cards=claims, mode=modes)
    def another_scheduler_binds_a_pod(
        self, wanted: Demand, name: str, cards: tuple[int, ...] | None, mode: Mode | None
    ) -> None:
        self.shows(pod(self.a_new_uid(), wanted, at=name, card=cards, mode=mode))

    def unconfirmed(self) -> list[str]:
        return sorted(uid for uid, reserved in self.model.reserved.items() if not reserved.confirmed)

    @precondition(lambda self: self.unconfirmed())
    @rule(pick=picks, elsewhere=st.none() | names, cards=claims, mode=modes)
    def the_api_shows_another_result_of_our_bind(
        self, pick: int, elsewhere: str | None, cards: tuple[int, ...] | None, mode: Mode | None
    ) -> None:
        uids = self.unconfirmed()
        who = self.pods[uids[pick % len(uids)]]
        assert isinstance(who.demand, Demand)
        name = elsewhere or self.model.reserved[who.uid].node
        seen = pod(who.uid, who.demand, at=name, card=cards, mode=mode)
        self.shows(replace(seen, priority=who.priority))

    @precondition(lambda self: self.some_pods())
    @rule(pick=picks, name=names, cards=claims)
    def a_pod_is_suddenly_somewhere(self, pick: int, name: str, cards: tuple[int, ...] | None) -> None:
        who = self.picked(pick)
        assert isinstance(who.demand, Demand)
        self.shows(replace(pod(who.uid, who.demand, at=name, card=cards), priority=who.priority))

    @precondition(lambda self: self.some_pods())
    @rule(
        pick=picks,
        name=names,
        units=st.dictionaries(st.integers(0, 3), st.integers(0, 10), max_size=2),
        by=st.sampled_from(("label", "limits", None)),
    )
    def the_agent_publishes_any_units(
        self, pick: int, name: str, units: dict[int, int], by: str | None
    ) -> None:
        who = self.picked(pick)
        assert isinstance(who.demand, Demand)
        parts = {"label": who.demand.cards, "limits": max(1, len(units)), None: 0}[by]
        published = dict.fromkeys(units, who.demand.mem // parts) if parts else units
        before = self.machines[name]
        self.shows_node(replace(before, assigned={**before.assigned, who.uid: published}))

    @invariant()
    def no_card_mixes_modes_users_of_mps_or_more_pods_than_it_may_hold(self) -> None:
        """Others do; GPUs that they have mixed are unschedulable, as in ``is_open`` of the model."""

    @invariant()
    def no_card_is_promised_more_than_it_has(self) -> None:
        """Other writers reserve here too, but an over-committed GPU is found and is unschedulable."""
        assert set(overcommitted(self.ledger)) == {
            (name, card.index)
            for name, node in self.model.nodes.items()
            for card in node.cards
            if min(self.model.free(name, card.index)) < 0
        }


class CrowdedCluster(HonestCluster):
    """Nodes that divide compute, and pods that all want some: few of them fit on a GPU, whatever is free."""

    @initialize(first=st.integers(8, 12), second=st.integers(8, 12))
    def nodes_come_up(self, first: int, second: int) -> None:
        for name, units in zip(NODES, (first, second), strict=True):
            self.shows_node(scheduling.node(name, units, mode=Mode.CORE_MEM))

    @precondition(lambda self: self.few_pods())
    @rule(mem=st.integers(1, 3), core=st.sampled_from((30, 60)))
    def a_pod_is_created(self, mem: int, core: int) -> None:
        self.shows(pod(self.a_new_uid(), demand(mem, core=core)))


TestHonestCluster = HonestCluster.TestCase
TestHostileCluster = HostileCluster.TestCase
TestCrowdedCluster = CrowdedCluster.TestCase
TestHonestCluster.settings = TestHostileCluster.settings = TestCrowdedCluster.settings = settings(
    stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow], report_multiple_bugs=False
)


pods = st.builds(
    pod,
    st.sampled_from(("a", "b", "c")),
    small_demands(),
    at=st.none() | names,
    card=st.sampled_from((0, 1, None)),
    terminating=st.booleans(),
    finished=st.booleans(),
    nominated=st.none() | names,
)
uids = st.sampled_from(("a", "b", "c", "d"))
events: st.SearchStrategy[LedgerEvent] = st.one_of(
    names.flatmap(nodes).map(NodeObserved),
    names.map(NodeDeleted),
    pods.map(PodObserved),
    uids.map(PodDeleted),
    uids.map(Confirmed),
    uids.map(Released),
    st.builds(UnhealthyObserved, names, some_cards),
)


@given(st.lists(events, max_size=8), st.lists(events, max_size=8))
def test_a_batch_is_its_events_one_by_one(before: list[LedgerEvent], batch: list[LedgerEvent]) -> None:
    start = apply(EMPTY_LEDGER, *before)
    one_by_one = reduce(apply, batch, start)
    at_once = apply(start, *batch)
    assert at_once == one_by_one
    assert {name: book.usages for name, book in at_once.books.items()} == {
        name: book.usages for name, book in one_by_one.books.items()
    }


@given(st.lists(events, max_size=8), st.lists(events, max_size=4))
def test_the_old_ledger_stays_as_it_was(before: list[LedgerEvent], batch: list[LedgerEvent]) -> None:
    start = apply(EMPTY_LEDGER, *before)
    apply(start, *batch)
    assert start == apply(EMPTY_LEDGER, *before)
