"""Which pods to evict so that a pod of higher priority fits on one GPU."""

import pytest

from gpushare.model.modes import Mode
from gpushare.scheduling.events import Confirmed, UnhealthySeen
from gpushare.scheduling.ledger import apply
from gpushare.scheduling.preemption import preempt, victims_on
from tests.builders.scheduling import T4, cluster, demand, node, pod, pod_request, reserved

HIGH = 1000


def test_victims_that_free_one_gpu_are_kept_as_the_scheduler_chose_them() -> None:
    ledger = cluster(
        node("n", T4, T4), pod("a", 12, at="n", card=0), pod("b", 12, at="n", card=1, priority=5)
    )
    assert preempt(ledger, pod_request(8, priority=HIGH), {"n": ["b"]}) == {"n": ("b",)}


def test_victims_on_different_gpus_die_for_nothing_and_are_replaced() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("a", 7, at="n", card=0),
        pod("b", 7, at="n", card=0),
        pod("c", 7, at="n", card=1),
        pod("d", 7, at="n", card=1),
    )
    ((name, victims),) = preempt(ledger, pod_request(T4, priority=HIGH), {"n": ["a", "c"]}).items()
    assert name == "n"
    assert victims in (("a", "b"), ("c", "d"))


def test_a_kept_choice_is_kept_whole_and_in_its_order() -> None:
    """One of them may be there for CPU, of which we know nothing."""
    ledger = cluster(node("n", T4, T4), *[pod(uid, 12, at="n", card=card) for card, uid in enumerate("ab")])
    found = victims_on(ledger.books["n"], pod_request(8, priority=HIGH), ("b", "stranger", "a"))
    assert found == ("b", "stranger", "a")


def test_too_small_a_choice_is_replaced_by_one_that_is_enough() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("a", 7, at="n", card=0),
        pod("b", 7, at="n", card=0),
        pod("c", T4, at="n", card=1, priority=HIGH),
    )
    assert victims_on(ledger.books["n"], pod_request(10, priority=HIGH), ("b",)) == ("a", "b")


def test_pods_that_request_no_gpu_stay_among_the_victims() -> None:
    """The scheduler wants their CPU or memory; we know nothing of that."""
    ledger = cluster(node("n", T4, T4), *[pod(uid, 12, at="n", card=card) for card, uid in enumerate("ab")])
    found = victims_on(ledger.books["n"], pod_request(8, priority=HIGH), ("cpu-hog",))
    assert found == ("cpu-hog", "a")


@pytest.mark.parametrize("priority", [HIGH, HIGH + 1])
def test_no_pod_of_equal_or_higher_priority_is_evicted(priority: int) -> None:
    ledger = cluster(node("n", T4), pod("a", 12, at="n", card=0, priority=priority))
    assert preempt(ledger, pod_request(8, priority=HIGH), {"n": ["stranger"]}) == {}


def test_a_pod_that_we_have_just_bound_is_as_important_as_it_was_before() -> None:
    ledger = reserved(cluster(node("n", T4)), pod("bound", 12, priority=HIGH), "n")
    assert (
        preempt(apply(ledger, Confirmed("bound")), pod_request(8, priority=HIGH), {"n": ["stranger"]}) == {}
    )


def test_a_pod_with_an_unclear_bind_is_not_evicted() -> None:
    """kube-scheduler gives up the preemption on all nodes over one victim that it does not know there."""
    ledger = reserved(cluster(node("n", T4)), pod("unclear", 12), "n")
    assert preempt(ledger, pod_request(8, priority=HIGH), {"n": ["stranger"]}) == {}
    settled = apply(ledger, Confirmed("unclear"))
    assert preempt(settled, pod_request(8, priority=HIGH), {"n": ["stranger"]}) == {
        "n": ("stranger", "unclear")
    }


def test_the_gpu_with_the_lowest_highest_priority_is_cleared() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("important", T4, at="n", card=0, priority=100),
        pod("a", 7, at="n", card=1, priority=10),
        pod("b", 7, at="n", card=1, priority=10),
    )
    assert victims_on(ledger.books["n"], pod_request(T4, priority=HIGH), ("stranger",)) == (
        "stranger",
        "a",
        "b",
    )


@pytest.mark.parametrize("priority", [7, 0, -7])
def test_of_gpus_with_equal_priorities_the_one_with_fewer_pods_is_cleared(priority: int) -> None:
    """Negative priorities must not make more victims cheaper."""
    ledger = cluster(
        node("n", T4, T4),
        pod("a", 7, at="n", card=0, priority=priority),
        pod("b", 7, at="n", card=0, priority=priority),
        pod("c", T4, at="n", card=1, priority=priority),
    )
    assert victims_on(ledger.books["n"], pod_request(T4, priority=HIGH), ("stranger",)) == ("stranger", "c")


def test_of_gpus_with_equal_highest_priorities_the_one_with_lower_others_is_cleared() -> None:
    ledger = cluster(
        node("n", T4, T4),
        *[pod(uid, 7, at="n", card=0, priority=priority) for uid, priority in (("a", 100), ("b", 50))],
        *[pod(uid, 7, at="n", card=1, priority=priority) for uid, priority in (("c", 100), ("d", 10))],
    )
    assert victims_on(ledger.books["n"], pod_request(T4, priority=HIGH), ("x",)) == ("x", "c", "d")


def test_a_low_companion_does_not_make_a_victim_cheaper() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("a", 7, at="n", card=0, priority=100),
        pod("b", 7, at="n", card=0, priority=-50),
        pod("c", T4, at="n", card=1, priority=100),
    )
    assert victims_on(ledger.books["n"], pod_request(T4, priority=HIGH), ("stranger",)) == ("stranger", "c")


def test_on_one_gpu_the_highest_priorities_are_spared() -> None:
    ledger = cluster(
        node("n", T4),
        pod("a", 4, at="n", card=0, priority=3),
        pod("b", 4, at="n", card=0, priority=1),
        pod("c", 4, at="n", card=0, priority=2),
    )
    book = ledger.books["n"]
    assert victims_on(book, pod_request(6, priority=HIGH), ("x",)) == ("x", "b")
    assert victims_on(book, pod_request(7, priority=HIGH), ("x",)) == ("x", "b", "c")


def test_among_equals_those_that_the_scheduler_named_go_first() -> None:
    ledger = cluster(
        node("n", T4, T4),
        *[pod(uid, 4, at="n", card=0) for uid in ("a", "b", "c")],
        pod("d", T4, at="n", card=1, priority=5),
    )
    assert victims_on(ledger.books["n"], pod_request(10, priority=HIGH), ("a",)) == ("a", "c")


def test_terminating_pods_are_counted_as_gone_and_not_evicted_twice() -> None:
    ledger = cluster(
        node("n", T4),
        pod("going", 6, at="n", card=0, terminating=True),
        pod("a", 4, at="n", card=0),
        pod("b", 4, at="n", card=0, priority=5),
    )
    assert victims_on(ledger.books["n"], pod_request(10, priority=HIGH), ("x",)) == ("x", "a")


def test_a_terminating_pod_of_the_schedulers_choice_is_kept_where_it_is_enough() -> None:
    ledger = cluster(node("n", T4), pod("going", 12, at="n", card=0, terminating=True))
    assert victims_on(ledger.books["n"], pod_request(10, priority=HIGH), ("going",)) == ("going",)


def test_a_pod_of_unknown_gpu_is_a_victim_like_any_other() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 12, at="n"), pod("b", 4, at="n", card=0, priority=HIGH))
    assert victims_on(ledger.books["n"], pod_request(12, priority=HIGH), ("x",)) == ("x", "a")


def test_a_pod_with_an_unknown_gpu_is_evicted_before_one_of_higher_priority() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n"), pod("b", 8, at="n", card=0, priority=5))
    assert victims_on(ledger.books["n"], pod_request(6, priority=HIGH), ("x",)) == ("x", "a")


@pytest.mark.parametrize(
    "place",
    [
        node("n", T4),
        node("n"),
        node("n", T4, closed="label"),
        node("n", 20, mode=Mode.CORE_MEM),
        node("n", 20, broken=(0,)),
    ],
)
def test_where_eviction_does_not_help_the_node_is_omitted(place: object) -> None:
    ledger = cluster(place, pod("a", 4, at="n", card=0))  # type: ignore[arg-type]
    assert preempt(ledger, pod_request(15, priority=HIGH), {"n": ["a"]}) == {}


def test_an_unschedulable_gpu_is_not_cleared() -> None:
    ledger = cluster(
        node("n", T4, T4), pod("a", 12, at="n", card=0), pod("b", 12, at="n", card=1, priority=5)
    )
    ledger = apply(ledger, UnhealthySeen("n", frozenset({0})))
    assert victims_on(ledger.books["n"], pod_request(8, priority=HIGH), ("a",)) == ("b",)


def test_nodes_are_judged_one_by_one() -> None:
    ledger = cluster(
        *(node(name, T4) for name in ("n", "m")), pod("a", 12, at="n", card=0), pod("b", 12, at="m", card=0)
    )
    asked = {"n": ["a"], "m": ["b"], "unknown": ["c"]}
    assert preempt(ledger, pod_request(8, priority=HIGH), asked) == {"n": ("a",), "m": ("b",)}


def test_a_nominee_that_waits_for_the_same_gpu_keeps_its_units() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("a", T4, at="n", card=0),
        pod("going", T4, at="n", card=1, terminating=True),
        pod("nominee", 12, priority=HIGH, nominated="n"),
    )
    assert victims_on(ledger.books["n"], pod_request(12, priority=HIGH), ("going",)) == ("a",)


def test_a_node_that_needs_no_eviction_is_omitted() -> None:
    """Evicting the pod would let a nominee in; and kube-scheduler fails over a node without victims."""
    ledger = cluster(
        node("n", T4), pod("a", 1, at="n", card=0), pod("nominee", T4, priority=HIGH, nominated="n")
    )
    assert preempt(ledger, pod_request(4, priority=5), {"n": ["a"]}) == {}
    assert preempt(ledger, pod_request(4, priority=5), {"n": ["a", "stranger"]}) == {"n": ("stranger",)}


def test_a_pod_for_several_gpus_gets_the_cheapest_of_them_cleared() -> None:
    ledger = cluster(
        node("n", T4, T4, T4),
        pod("a", 12, at="n", card=0, priority=1),
        pod("b", 12, at="n", card=1, priority=9),
        pod("c", 12, at="n", card=2, priority=2),
    )
    wanted = pod_request(demand(16, cards=2), priority=HIGH)
    assert victims_on(ledger.books["n"], wanted, ("b",)) == ("a", "c")


def test_a_pod_for_several_gpus_evicts_as_few_pods_as_possible() -> None:
    ledger = cluster(
        node("n", T4, T4, T4),
        pod("a", 12, at="n", card=0),
        pod("b", 6, at="n", card=1),
        pod("c", 6, at="n", card=1),
        pod("d", 12, at="n", card=2),
    )
    wanted = pod_request(demand(26, cards=2), priority=HIGH)
    assert victims_on(ledger.books["n"], wanted, ("x",)) == ("x", "a", "d")


def test_free_gpus_need_no_evictions() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 12, at="n", card=1))
    assert victims_on(ledger.books["n"], pod_request(demand(16, cards=2), priority=HIGH), ("x",)) == (
        "x",
        "a",
    )


def test_one_pod_that_blocks_two_gpus_is_evicted_alone() -> None:
    """Judged GPU by GPU, the small one would fit on GPU 1, and both would go."""
    ledger = cluster(
        node("n", T4, T4),
        pod("wide", demand(10, cards=2), at="n", card=(0, 1), priority=2),
        pod("high", 3, at="n", card=0, priority=HIGH),
        pod("small", 5, at="n", card=1, priority=1),
    )
    wanted = pod_request(demand(18, cards=2), priority=HIGH)
    assert victims_on(ledger.books["n"], wanted, ("x",)) == ("x", "wide")


def test_compute_is_freed_like_memory() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CORE_MEM),
        pod("a", demand(2, core=90), at="n", card=0, priority=5),
        pod("b", demand(2, core=90), at="n", card=1),
    )
    wanted = pod_request(demand(2, core=50), priority=HIGH)
    assert victims_on(ledger.books["n"], wanted, ("x",)) == ("x", "b")


def test_a_gpu_that_one_pod_keeps_from_computing_is_cheaper_than_one_that_two_do() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CORE_MEM),
        pod("a", demand(2, core=100), at="n", card=0),
        pod("b", demand(2, core=50), at="n", card=1),
        pod("c", demand(2, core=50), at="n", card=1),
    )
    wanted = pod_request(demand(2, core=60), priority=HIGH)
    assert victims_on(ledger.books["n"], wanted, ("x",)) == ("x", "a")


def test_a_gpu_of_another_mode_is_cleared_of_all_its_pods_and_of_no_other() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CGPU),
        *(pod(uid, 2, at="n", card=0, mode=Mode.SHARE) for uid in ("a", "b")),
        pod("c", T4, at="n", card=1, priority=HIGH, mode=Mode.CGPU),
    )
    assert victims_on(ledger.books["n"], pod_request(4, priority=HIGH), ("a",)) == ("a", "b")


def test_a_gpu_that_a_pod_of_another_mode_may_not_leave_is_not_cleared() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CGPU),
        pod("a", 2, at="n", card=0, mode=Mode.SHARE, priority=HIGH),
        pod("b", 2, at="n", card=0, mode=Mode.SHARE),
        pod("c", T4, at="n", card=1, priority=5, mode=Mode.CGPU),
    )
    assert victims_on(ledger.books["n"], pod_request(4, priority=HIGH), ("b",)) == ("c",)


def test_a_gpu_is_cleared_of_the_users_that_it_does_not_serve_together() -> None:
    ledger = cluster(
        node("n", T4, mode=Mode.MPS),
        pod("a", demand(2, user=2000), at="n", card=0),
        pod("b", demand(2, user=None), at="n", card=0),
        pod("c", 2, at="n", card=0),
    )
    assert victims_on(ledger.books["n"], pod_request(4, priority=HIGH), ("x",)) == ("x", "a", "b")


def test_of_too_many_pods_on_a_gpu_one_has_to_go() -> None:
    ledger = cluster(
        node("n", T4, mode=Mode.CGPU, pods_per_card=2),
        pod("a", 2, at="n", card=0, priority=1),
        pod("b", 2, at="n", card=0, priority=2),
    )
    assert victims_on(ledger.books["n"], pod_request(4, priority=HIGH), ("x",)) == ("x", "a")


def test_a_pod_of_unknown_user_evicts_no_pod_on_an_mps_node() -> None:
    ledger = cluster(node("n", T4, mode=Mode.MPS), pod("a", T4, at="n", card=0))
    assert victims_on(ledger.books["n"], pod_request(demand(4, user=None), priority=HIGH), ("a",)) is None


def test_preempt_changes_nothing() -> None:
    ledger = cluster(node("n", T4), pod("a", 12, at="n", card=0))
    preempt(ledger, pod_request(8, priority=HIGH), {"n": ["a"]})
    assert ledger == cluster(node("n", T4), pod("a", 12, at="n", card=0))
