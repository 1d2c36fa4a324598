"""The ledger: reservations after events in any order."""

from dataclasses import replace

import pytest

from gpushare.model.annotations import even_shares
from gpushare.model.demand import Demand, Malformed, demand_of
from gpushare.model.modes import Mode
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
from gpushare.scheduling.ledger import EMPTY_LEDGER, Ledger, apply, overcommitted, sharing
from tests.support.builders.scheduling import T4, cluster, demand, free, main, node, pod, reserved, seen


def reservation_is_settled(ledger: Ledger, uid: str) -> bool:
    found = ledger.reservation(uid)
    assert found is not None
    return found[1].confirmed


# --- the ordinary life of a pod -------------------------------------------------------------------


def test_three_pods_of_4_on_the_t4_of_the_source_documents_leave_2() -> None:
    ledger = cluster(node("n", T4))
    for uid in ("a", "b", "c"):
        ledger = reserved(ledger, pod(uid, 4), "n")
    assert free(ledger, "n") == [2]


def test_a_reservation_reserves_its_units_before_the_api_has_answered() -> None:
    ledger = reserved(cluster(node("n", T4)), pod("a", 4), "n")
    assert free(ledger, "n") == [10]
    assert not reservation_is_settled(ledger, "a")


def test_an_answer_settles_a_reservation_and_moves_nothing() -> None:
    ledger = reserved(cluster(node("n", T4)), pod("a", 4), "n")
    after = apply(ledger, Confirmed("a"))
    assert reservation_is_settled(after, "a")
    assert free(after, "n") == free(ledger, "n")


def test_the_watch_settles_a_reservation_too() -> None:
    ledger = reserved(cluster(node("n", T4)), pod("a", 4), "n")
    assert reservation_is_settled(seen(ledger, pod("a", 4, at="n", card=0)), "a")


def test_the_watch_showing_the_pod_still_unbound_frees_nothing() -> None:
    ledger = reserved(cluster(node("n", T4)), pod("a", 4), "n")
    assert seen(ledger, pod("a", 4)) == ledger


def test_a_bind_that_certainly_failed_releases_its_units() -> None:
    ledger = reserved(cluster(node("n", T4)), pod("a", 4), "n")
    assert apply(ledger, Released("a")) == cluster(node("n", T4))


@pytest.mark.parametrize("settled_by", [Confirmed("a"), PodObserved(pod("a", 4, at="n", card=0))])
def test_a_reservation_of_a_bound_pod_cannot_be_released(settled_by: LedgerEvent) -> None:
    ledger = apply(reserved(cluster(node("n", T4)), pod("a", 4), "n"), settled_by)
    assert apply(ledger, Released("a")) == ledger


def test_a_pod_that_is_gone_reserves_nothing() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n", card=0))
    assert apply(ledger, PodDeleted("a")) == cluster(node("n", T4))


def test_a_finished_pod_reserves_nothing() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n", card=0))
    assert seen(ledger, pod("a", 4, at="n", card=0, finished=True)) == cluster(node("n", T4))


def test_a_pod_that_is_being_deleted_reserves_its_units_until_it_is_gone() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n", card=0))
    ledger = seen(ledger, pod("a", 4, at="n", card=0, terminating=True))
    assert free(ledger, "n") == [10]
    assert free(apply(ledger, PodDeleted("a")), "n") == [14]


def test_a_reservation_of_a_pod_that_is_being_deleted_stays() -> None:
    ledger = reserved(cluster(node("n", T4)), pod("a", 4), "n")
    assert free(seen(ledger, pod("a", 4, terminating=True)), "n") == [10]


@pytest.mark.parametrize("event", [PodDeleted("x"), Released("x"), Confirmed("x")])
def test_news_of_a_pod_that_is_unknown_changes_nothing(event: LedgerEvent) -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n", card=0))
    assert apply(ledger, event) == ledger
    assert apply(EMPTY_LEDGER, event) == EMPTY_LEDGER


def test_seeing_the_same_pod_again_counts_it_once() -> None:
    bound = pod("a", 4, at="n", card=0)
    assert cluster(node("n", T4), bound, bound) == cluster(node("n", T4), bound)


# --- identity -------------------------------------------------------------------------------------


def test_a_new_pod_of_the_same_name_is_another_pod() -> None:
    old, new = pod("uid-1", 4, at="n", card=0, name="web-0"), pod("uid-2", 4, at="n", card=0, name="web-0")
    both = cluster(node("n", T4), old, new)
    assert free(both, "n") == [6]
    assert apply(both, PodDeleted("uid-1")) == cluster(node("n", T4), new)


def test_a_pod_is_on_one_node_at_a_time() -> None:
    ledger = reserved(cluster(node("n", T4), node("m", T4)), pod("a", 4), "n")
    ledger = apply(ledger, Reserved(pod("a", 4), demand(4), "m", even_shares(demand(4), (0,))))
    assert (free(ledger, "n"), free(ledger, "m")) == ([14], [10])


def test_a_pod_that_the_api_shows_elsewhere_than_reserved_is_elsewhere() -> None:
    ledger = reserved(cluster(node("n", T4), node("m", T4, T4)), pod("a", 4), "n")
    ledger = seen(ledger, pod("a", 4, at="m", card=1))
    assert (free(ledger, "n"), free(ledger, "m")) == ([14], [14, 10])
    assert ledger.home["a"] == "m"


# --- annotations are a copy of the decision -------------------------------------------------------


def test_an_edit_of_the_annotations_after_bind_moves_and_frees_nothing() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 4, at="n", card=0))
    assert free(seen(ledger, pod("a", 4, at="n", card=1)), "n") == [10, 14]
    assert free(seen(ledger, pod("a", 4, at="n")), "n") == [10, 14]


def test_an_edit_after_our_own_bind_moves_and_frees_nothing() -> None:
    ledger = apply(reserved(cluster(node("n", T4, T4)), pod("a", 4), "n"), Confirmed("a"))
    assert free(seen(ledger, pod("a", 4, at="n", card=1)), "n") == [10, 14]


def test_an_edit_adds_no_gpu_to_a_pod_seen_without_one() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 4, at="n"), pod("a", 4, at="n", card=1))
    assert free(ledger, "n") == [10, 10]


def test_an_edit_of_the_mode_after_bind_opens_no_gpu() -> None:
    ledger = cluster(node("n", T4, mode=Mode.CGPU), pod("a", 4, at="n", card=0, mode=Mode.SHARE))
    for edited in (Mode.CGPU, None):
        ledger = seen(ledger, pod("a", 4, at="n", card=0, mode=edited))
        assert not ledger.books["n"].usages[0].schedulable


def test_an_edit_of_the_mode_after_our_own_bind_opens_no_gpu() -> None:
    ledger = apply(reserved(cluster(node("n", T4)), pod("a", 4), "n"), Confirmed("a"))
    ledger = seen(ledger, node("n", T4, mode=Mode.CGPU), pod("a", 4, at="n", card=0, mode=Mode.CGPU))
    assert not ledger.books["n"].usages[0].schedulable


def test_a_pod_once_seen_without_a_mode_closes_no_gpu_by_an_edit() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n", card=0))
    assert seen(ledger, pod("a", 4, at="n", card=0, mode=Mode.MPS)).books["n"].usages[0].schedulable


def test_of_a_bind_without_a_clear_answer_the_api_decides() -> None:
    ledger = reserved(cluster(node("n", T4, T4)), pod("a", 4), "n")
    assert free(ledger, "n") == [10, 14]
    assert free(seen(ledger, pod("a", 4, at="n", card=1)), "n") == [14, 10]


@pytest.mark.parametrize("label", ["2", "4", "many"])
def test_an_edit_of_the_label_after_bind_thins_out_no_gpu(label: str) -> None:
    """8 units on GPU 0 stay 8 units on GPU 0, although the label now requests 4 on each of two GPUs."""
    ledger = cluster(node("n", T4, T4), pod("a", 8, at="n", card=0))
    edited = pod("a", demand_of([main(8)], label), at="n")
    assert free(seen(ledger, edited), "n") == [6, 14]
    assert free(seen(seen(ledger, edited), edited), "n") == [6, 14]


def test_an_edit_of_the_label_while_bind_is_under_way_thins_out_no_gpu() -> None:
    ledger = reserved(cluster(node("n", T4, T4)), pod("a", 8), "n")
    edited = pod("a", demand_of([main(8)], "2"), at="n", card=None)
    assert min(free(seen(ledger, edited), "n")) == 6


def test_a_claim_of_a_gpu_that_the_node_does_not_have_counts_on_every_gpu() -> None:
    assert free(cluster(node("n", T4, T4), pod("a", 4, at="n", card=2)), "n") == [10, 10]


def test_a_claim_that_disagrees_with_the_limits_counts_on_every_gpu() -> None:
    odd = replace(pod("a", 4, at="n"), claim=even_shares(demand(1), (0,)))
    assert free(cluster(node("n", T4, T4), odd), "n") == [10, 10]


def test_a_bound_pod_of_unknown_gpu_counts_on_every_gpu() -> None:
    ledger = cluster(node("n", T4, T4, 8), pod("a", 4, at="n"), pod("b", 2, at="n", card=1))
    assert free(ledger, "n") == [10, 8, 4]


def test_a_pod_with_unknown_gpus_counts_all_its_units_on_every_gpu() -> None:
    """The label with the number of GPUs can be edited: the pod may have all units on one of them."""
    assert free(cluster(node("n", T4, T4, T4), pod("a", demand(8, cards=2), at="n")), "n") == [6, 6, 6]


def test_a_pod_that_was_rejected_but_runs_all_the_same_counts_on_every_gpu() -> None:
    odd = demand_of([main(8), main(3)], "2")
    assert isinstance(odd, Malformed)
    assert free(cluster(node("n", T4, T4), pod("a", odd, at="n")), "n") == [3, 3]


def test_a_pod_with_unreadable_limits_reserves_nothing() -> None:
    ledger = cluster(node("n", T4), pod("a", Malformed("junk"), at="n"))
    assert free(ledger, "n") == [14]


# --- allocations that the node agent publishes ----------------------------------------------------


def test_the_agents_annotation_outranks_the_claim() -> None:
    bound = pod("a", 4, at="n", card=0)
    assert free(cluster(node("n", T4, T4, assigned={"a": {1: 4}}), bound), "n") == [14, 10]


def test_the_agents_annotation_finds_a_pod_of_unknown_gpu() -> None:
    bound = pod("a", 4, at="n")
    assert free(cluster(node("n", T4, T4, assigned={"a": {1: 4}}), bound), "n") == [14, 10]


@pytest.mark.parametrize("word", [{1: 3}, {1: 5}, {0: 4, 1: 4}, {2: 4}, {}])
def test_an_assignment_that_disagrees_with_the_limits_or_the_gpus_counts_on_every_gpu(
    word: dict[int, int],
) -> None:
    bound = pod("a", 4, at="n", card=0)
    assert free(cluster(node("n", T4, T4, assigned={"a": word}), bound), "n") == [10, 10]


def test_an_assignment_of_one_pod_does_not_affect_another() -> None:
    ledger = cluster(node("n", T4, T4, assigned={"b": {1: 4}}), pod("a", 4, at="n", card=0))
    assert free(ledger, "n") == [10, 14]


def test_twins_that_the_agent_swapped_are_swapped_in_one_step() -> None:
    twins = pod("a", 4, at="n", card=0), pod("b", 4, at="n", card=1)
    ledger = cluster(node("n", T4, T4), *twins)
    assert free(seen(ledger, node("n", T4, T4, assigned={"a": {1: 4}, "b": {0: 4}})), "n") == [10, 10]


def test_an_assignment_on_several_gpus_counts_on_each_of_them() -> None:
    bound = pod("a", demand(8, core=20, cards=2), at="n", card=(0, 1))
    assert free(cluster(node("n", T4, T4, T4, assigned={"a": {0: 4, 2: 4}}), bound), "n") == [10, 14, 10]


@pytest.mark.parametrize(
    ("edited", "assigned", "left"),
    [(demand(8, core=20, cards=2), {1: 8}, [14, 6]), (demand(8, core=20), {0: 4, 1: 4}, [10, 10])],
)
def test_an_edited_number_of_gpus_does_not_outrank_the_agents_annotation(
    edited: Demand, assigned: dict[int, int], left: list[int]
) -> None:
    """The label of a running pod can be edited; an extender that starts later sees only the new value."""
    bound = pod("a", edited, at="n", card=0)
    assert free(cluster(node("n", T4, T4, assigned={"a": assigned}), bound), "n") == left


# --- nodes ----------------------------------------------------------------------------------------


def test_a_node_that_is_added_again_has_its_pods() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n", card=0))
    gone = apply(ledger, NodeDeleted("n"))
    assert gone.books["n"].usages == ()
    assert seen(gone, node("n", T4)) == ledger


def test_a_deleted_node_without_pods_leaves_no_trace() -> None:
    assert apply(cluster(node("n", T4)), NodeDeleted("n")) == EMPTY_LEDGER


def test_pods_may_be_seen_before_their_node() -> None:
    assert free(cluster(pod("a", 4, at="n", card=0), node("n", T4)), "n") == [10]


def test_a_pod_deleted_while_its_node_is_absent_is_removed() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n", card=0))
    assert apply(ledger, NodeDeleted("n"), PodDeleted("a")) == EMPTY_LEDGER


def test_a_gpu_that_was_replaced_by_a_smaller_one_is_overcommitted_and_unschedulable() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 10, at="n", card=0), node("n", 8, T4))
    assert free(ledger, "n") == [-2, 14]
    assert list(overcommitted(ledger)) == [("n", 0)]
    assert [usage.schedulable for usage in ledger.books["n"].usages] == [False, True]


def test_two_writers_that_met_on_one_gpu_are_found() -> None:
    ledger = cluster(node("n", T4), pod("a", 8, at="n", card=0))
    assert list(overcommitted(ledger)) == []
    assert list(overcommitted(seen(ledger, pod("b", 8, at="n", card=0)))) == [("n", 0)]


def test_an_unhealthy_gpu_is_unschedulable_and_keeps_its_pods() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 4, at="n", card=1))
    ledger = apply(ledger, UnhealthyObserved("n", frozenset({1})))
    assert [usage.schedulable for usage in ledger.books["n"].usages] == [True, False]
    assert free(ledger, "n") == [14, 10]
    assert [
        usage.schedulable for usage in apply(ledger, UnhealthyObserved("n", frozenset())).books["n"].usages
    ] == [
        True,
        True,
    ]


def test_a_gpu_that_the_agent_calls_unhealthy_is_unschedulable() -> None:
    ledger = cluster(node("n", T4, T4, broken=(0,)))
    assert [usage.schedulable for usage in ledger.books["n"].usages] == [False, True]


def test_a_list_of_unhealthy_gpus_may_come_before_the_node_and_outlives_it() -> None:
    ledger = apply(EMPTY_LEDGER, UnhealthyObserved("n", frozenset({0})), NodeObserved(node("n", T4)))
    assert not ledger.books["n"].usages[0].schedulable
    back = apply(ledger, NodeDeleted("n"), NodeObserved(node("n", T4)))
    assert not back.books["n"].usages[0].schedulable
    assert apply(back, NodeDeleted("n"), UnhealthyObserved("n", frozenset())) == EMPTY_LEDGER


def test_nodes_that_share_are_listed_by_name() -> None:
    ledger = cluster(node("c", T4), node("a", T4), node("none"), pod("x", 4, at="gone", card=0))
    assert [book.name for book in sharing(ledger.books.values())] == ["a", "c"]


# --- nominations ----------------------------------------------------------------------------------


def nominated(ledger: Ledger) -> dict[str, str]:
    return {uid: name for name, book in ledger.books.items() for uid in book.nominees}


def test_a_pending_pod_with_a_nomination_is_noted_on_that_node() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, nominated="n"))
    assert nominated(ledger) == {"a": "n"}
    assert free(ledger, "n") == [14]


@pytest.mark.parametrize(
    "event",
    [
        PodObserved(pod("a", 4)),
        PodObserved(pod("a", 4, nominated="n", terminating=True)),
        PodObserved(pod("a", 4, nominated="n", finished=True)),
        PodObserved(pod("a", 4, nominated="n", at="m", card=0)),
        PodObserved(pod("a", Malformed("junk", demand(4)), nominated="n")),
        PodDeleted("a"),
    ],
)
def test_a_nomination_ends_when_the_pod_no_longer_waits_for_it(event: LedgerEvent) -> None:
    ledger = cluster(node("n", T4), node("m", T4), pod("a", 4, nominated="n"))
    after = apply(ledger, event)
    assert nominated(after) == {}
    assert dict(after.nominated) == {}


def test_a_nomination_moves_with_the_schedulers_mind() -> None:
    ledger = cluster(node("n", T4), node("m", T4), pod("a", 4, nominated="n"), pod("a", 4, nominated="m"))
    assert nominated(ledger) == dict(ledger.nominated) == {"a": "m"}


# --- values ---------------------------------------------------------------------------------------


def test_books_that_an_event_does_not_touch_are_the_same_objects() -> None:
    before = cluster(node("n", T4), node("m", T4))
    assert seen(before, pod("a", 4, at="n", card=0)).books["m"] is before.books["m"]


def test_no_event_changes_nothing() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n", card=0))
    assert apply(ledger) == ledger


def test_the_reservation_of_a_pod_is_found_by_its_uid() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n", card=0))
    found = ledger.reservation("a")
    assert found is not None
    assert (found[0], found[1].pod, found[1].demand.mem) == ("n", "default/a", 4)
    assert ledger.reservation("b") is None
