"""Which pods to evict, beside those that the scheduler proposes, so that a pod fits on one GPU."""

from dataclasses import replace

import pytest

from gpushare.model.disruption import Budgets, DisruptionBudget
from gpushare.model.modes import Mode
from gpushare.model.objects import Pod
from gpushare.scheduling.events import Confirmed, UnhealthyObserved
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.ledger import Ledger, apply
from gpushare.scheduling.preemption import (
    BudgetsOf,
    Victims,
    no_budgets,
    possible_victims,
    victims_by_node_steps,
    victims_on,
)
from tests.support.builders.scheduling import T4, budget, cluster, demand, node, pod, pod_request, reserved
from tests.support.steps import counted, finished

HIGH = 1000


def covered(pods: list[Pod], *budgets: DisruptionBudget) -> BudgetsOf:
    """The budgets of these pods."""
    known, index = {pod.uid: pod for pod in pods}, Budgets(budgets)
    return lambda uid: index.covering(known[uid]) if uid in known else ()


def added(
    ledger: Ledger, who: PodRequest, *proposed: str, budgets_of: BudgetsOf = no_budgets
) -> tuple[str, ...] | None:
    """The victims on node n beside the proposed ones; None if evictions do not help."""
    found = victims_on(ledger.books["n"], who, proposed, budgets_of)
    if found is None:
        return None
    assert [uid for uid in found.uids if uid in proposed] == list(proposed)
    return tuple(sorted(set(found.uids) - set(proposed)))


def test_a_pod_may_have_preempted_bound_pods_of_lower_priority_and_probably_those_that_terminate() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("equal", 1, at="n", card=0, priority=5),
        pod("low", 1, at="n", card=0, priority=4),
        replace(pod("leaves", 1, at="n", card=1, priority=1), terminating=True),
    )
    book = reserved(ledger, pod("under-way", 1), "n").books["n"]
    assert possible_victims(book, 5) == ["leaves", "low"]
    assert possible_victims(book, 1) == []


def test_victims_that_free_one_gpu_are_enough() -> None:
    ledger = cluster(
        node("n", T4, T4), pod("a", 12, at="n", card=0), pod("b", 12, at="n", card=1, priority=5)
    )
    assert added(ledger, pod_request(8, priority=HIGH), "b") == ()


def test_the_victims_that_the_scheduler_needs_for_cpu_are_kept_and_the_least_is_added() -> None:
    """GPU memory is free on the GPUs of a and b, but they may have the CPU that the pod needs."""
    ledger = cluster(
        node("n", T4, T4, T4),
        pod("a", 2, at="n", card=0),
        pod("b", 2, at="n", card=1),
        pod("b2", 12, at="n", card=1),
        pod("a2", 12, at="n", card=0, priority=1),
        pod("c", T4, at="n", card=2, priority=2),
    )
    assert added(ledger, pod_request(10, priority=HIGH), "a", "b") == ("b2",)


def test_victims_on_different_gpus_are_completed_on_one_of_them() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("a", 7, at="n", card=0),
        pod("b", 7, at="n", card=0),
        pod("c", 7, at="n", card=1),
        pod("d", 7, at="n", card=1),
    )
    assert added(ledger, pod_request(T4, priority=HIGH), "a", "c") in (("b",), ("d",))


def test_units_of_a_proposed_victim_count_as_free() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("a", 7, at="n", card=0),
        pod("b", 7, at="n", card=0),
        pod("c", 4, at="n", card=1),
        pod("d", 10, at="n", card=1, priority=HIGH),
    )
    assert added(ledger, pod_request(10, priority=HIGH), "b") == ("a",)


def test_proposed_victims_keep_their_order() -> None:
    ledger = cluster(node("n", T4, T4), *[pod(uid, 12, at="n", card=card) for card, uid in enumerate("ab")])
    found = victims_on(ledger.books["n"], pod_request(8, priority=HIGH), ("b", "stranger", "a"))
    assert found == Victims(("b", "stranger", "a"))


@pytest.mark.parametrize(
    ("proposed", "answer"),
    [
        (("low",), ("added", "low")),
        (("high", "low"), ("high", "added", "low")),
        (("stranger",), ("added", "stranger")),
        (("stranger", "high"), ("stranger", "high", "added")),
    ],
)
def test_the_most_important_victim_is_the_first(proposed: tuple[str, ...], answer: tuple[str, ...]) -> None:
    """kube-scheduler compares nodes by the priority of the first victim."""
    ledger = cluster(
        node("n", T4, T4, T4),
        pod("added", T4, at="n", card=0, priority=5),
        pod("low", 1, at="n", card=1, priority=1),
        pod("high", 1, at="n", card=1, priority=9),
        pod("b", 12, at="n", card=1, priority=HIGH),
        pod("c", T4, at="n", card=2, priority=HIGH),
    )
    found = victims_on(ledger.books["n"], pod_request(T4, priority=HIGH), proposed)
    assert found == Victims(answer)


def test_nodes_are_judged_one_by_one() -> None:
    ledger = cluster(
        *(node(name, T4) for name in ("n", "m")), pod("a", 12, at="n", card=0), pod("b", 12, at="m", card=0)
    )
    asked = {"n": ["a"], "m": ["x"], "unknown": ["c"]}
    steps, found = counted(victims_by_node_steps(ledger, pod_request(8, priority=HIGH), asked))
    assert found == {"n": Victims(("a",)), "m": Victims(("x", "b"))}
    assert steps >= len(asked)


def test_a_node_with_many_pods_takes_several_steps() -> None:
    """With a nominated pod it takes tens of milliseconds."""
    pods = [pod(f"p{number}", 1, at="n", card=number % 2) for number in range(2 * T4)]
    ledger = cluster(node("n", T4, T4), *pods, pod("w", 1, nominated="n", priority=HIGH))
    steps, found = counted(victims_by_node_steps(ledger, pod_request(T4, priority=HIGH), {"n": []}))
    assert len(found["n"].uids) == T4 + 1
    assert steps > len(pods)


def test_pods_that_request_no_gpu_stay_among_the_victims() -> None:
    """The scheduler wants their CPU or memory; we know nothing of that."""
    ledger = cluster(node("n", T4, T4), *[pod(uid, 12, at="n", card=card) for card, uid in enumerate("ab")])
    assert added(ledger, pod_request(8, priority=HIGH), "cpu-hog") == ("a",)


@pytest.mark.parametrize("priority", [HIGH, HIGH + 1])
def test_no_pod_of_equal_or_higher_priority_is_evicted(priority: int) -> None:
    ledger = cluster(node("n", T4), pod("a", 12, at="n", card=0, priority=priority))
    assert added(ledger, pod_request(8, priority=HIGH), "stranger") is None


def test_a_pod_that_we_have_just_bound_is_as_important_as_it_was_before() -> None:
    ledger = reserved(cluster(node("n", T4)), pod("bound", 12, priority=HIGH), "n")
    assert added(apply(ledger, Confirmed("bound")), pod_request(8, priority=HIGH), "stranger") is None


def test_a_pod_with_an_unclear_bind_evicts_no_pod_for_units_that_it_has_reserved_or_elsewhere() -> None:
    nodes = [node("n", T4), node("m", T4)]
    ledger = cluster(*nodes, *(pod(f"low-{name}", 8, at=name, card=0) for name in "nm"))
    ledger = reserved(ledger, pod("unclear", 6, priority=HIGH), "n")
    who = pod_request(6, uid="unclear", priority=HIGH)
    proposed = {"n": ["for-cpu"], "m": ["low-m"]}
    assert finished(victims_by_node_steps(ledger, who, proposed)) == {"n": Victims(("for-cpu",))}


def test_a_pod_with_an_unclear_bind_is_not_evicted() -> None:
    """kube-scheduler gives up the preemption on all nodes over one victim that it does not know there."""
    ledger = reserved(cluster(node("n", T4)), pod("unclear", 12), "n")
    assert added(ledger, pod_request(8, priority=HIGH), "stranger") is None
    confirmed = apply(ledger, Confirmed("unclear"))
    assert added(confirmed, pod_request(8, priority=HIGH), "stranger") == ("unclear",)


def test_the_gpu_with_the_lowest_highest_priority_is_cleared() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("important", T4, at="n", card=0, priority=100),
        pod("a", 7, at="n", card=1, priority=10),
        pod("b", 7, at="n", card=1, priority=10),
    )
    assert added(ledger, pod_request(T4, priority=HIGH), "stranger") == ("a", "b")


@pytest.mark.parametrize("priority", [7, 0, -7])
def test_of_gpus_with_equal_priorities_the_one_with_fewer_pods_is_cleared(priority: int) -> None:
    """Negative priorities must not make more victims cheaper."""
    ledger = cluster(
        node("n", T4, T4),
        pod("a", 7, at="n", card=0, priority=priority),
        pod("b", 7, at="n", card=0, priority=priority),
        pod("c", T4, at="n", card=1, priority=priority),
    )
    assert added(ledger, pod_request(T4, priority=HIGH), "stranger") == ("c",)


def test_of_gpus_with_equal_highest_priorities_the_one_with_lower_others_is_cleared() -> None:
    ledger = cluster(
        node("n", T4, T4),
        *[pod(uid, 7, at="n", card=0, priority=priority) for uid, priority in (("a", 100), ("b", 50))],
        *[pod(uid, 7, at="n", card=1, priority=priority) for uid, priority in (("c", 100), ("d", 10))],
    )
    assert added(ledger, pod_request(T4, priority=HIGH), "x") == ("c", "d")


def test_a_low_companion_does_not_make_a_victim_cheaper() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("a", 7, at="n", card=0, priority=100),
        pod("b", 7, at="n", card=0, priority=-50),
        pod("c", T4, at="n", card=1, priority=100),
    )
    assert added(ledger, pod_request(T4, priority=HIGH), "stranger") == ("c",)


def test_on_one_gpu_the_highest_priorities_are_spared() -> None:
    ledger = cluster(
        node("n", T4),
        pod("a", 4, at="n", card=0, priority=3),
        pod("b", 4, at="n", card=0, priority=1),
        pod("c", 4, at="n", card=0, priority=2),
    )
    assert added(ledger, pod_request(6, priority=HIGH), "x") == ("b",)
    assert added(ledger, pod_request(7, priority=HIGH), "x") == ("b", "c")


def test_terminating_pods_are_counted_as_gone_and_not_evicted_twice() -> None:
    ledger = cluster(
        node("n", T4),
        pod("going", 6, at="n", card=0, terminating=True),
        pod("a", 4, at="n", card=0),
        pod("b", 4, at="n", card=0, priority=5),
    )
    assert added(ledger, pod_request(10, priority=HIGH), "x") == ("a",)


def test_a_terminating_pod_of_the_schedulers_choice_is_kept_where_it_is_enough() -> None:
    ledger = cluster(node("n", T4), pod("going", 12, at="n", card=0, terminating=True))
    assert added(ledger, pod_request(10, priority=HIGH), "going") == ()


def test_a_pod_of_unknown_gpu_is_a_victim_like_any_other() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 12, at="n"), pod("b", 4, at="n", card=0, priority=HIGH))
    assert added(ledger, pod_request(12, priority=HIGH), "x") == ("a",)


def test_a_pod_with_an_unknown_gpu_is_evicted_before_one_of_higher_priority() -> None:
    ledger = cluster(node("n", T4), pod("a", 4, at="n"), pod("b", 8, at="n", card=0, priority=5))
    assert added(ledger, pod_request(6, priority=HIGH), "x") == ("a",)


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
    assert added(ledger, pod_request(15, priority=HIGH), "a") is None


def test_an_unschedulable_gpu_is_not_cleared() -> None:
    ledger = cluster(
        node("n", T4, T4), pod("a", 12, at="n", card=0), pod("b", 12, at="n", card=1, priority=5)
    )
    ledger = apply(ledger, UnhealthyObserved("n", frozenset({0})))
    assert added(ledger, pod_request(8, priority=HIGH), "a") == ("b",)


def test_a_nominee_that_waits_for_the_same_gpu_keeps_its_units() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("a", T4, at="n", card=0),
        pod("going", T4, at="n", card=1, terminating=True),
        pod("nominee", 12, priority=HIGH, nominated="n"),
    )
    assert added(ledger, pod_request(12, priority=HIGH), "going") == ("a",)


def test_a_node_where_the_proposed_evictions_let_only_a_nominee_in_is_omitted() -> None:
    ledger = cluster(
        node("n", T4), pod("a", 1, at="n", card=0), pod("nominee", T4, priority=HIGH, nominated="n")
    )
    assert added(ledger, pod_request(4, priority=5), "a") is None
    assert added(ledger, pod_request(4, priority=5), "a", "stranger") is None


def test_a_pod_for_several_gpus_gets_the_cheapest_of_them_cleared() -> None:
    ledger = cluster(
        node("n", T4, T4, T4),
        pod("a", 12, at="n", card=0, priority=1),
        pod("b", 12, at="n", card=1, priority=9),
        pod("c", 12, at="n", card=2, priority=2),
    )
    wanted = pod_request(demand(16, cards=2), priority=HIGH)
    assert added(ledger, wanted, "b") == ("a",)


def test_a_pod_for_several_gpus_evicts_as_few_pods_as_possible() -> None:
    ledger = cluster(
        node("n", T4, T4, T4),
        pod("a", 12, at="n", card=0),
        pod("b", 6, at="n", card=1),
        pod("c", 6, at="n", card=1),
        pod("d", 12, at="n", card=2),
    )
    wanted = pod_request(demand(26, cards=2), priority=HIGH)
    assert added(ledger, wanted, "x") == ("a", "d")


def test_free_gpus_need_no_evictions() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 12, at="n", card=1))
    assert added(ledger, pod_request(demand(16, cards=2), priority=HIGH), "x") == ("a",)


def test_one_pod_that_blocks_two_gpus_is_evicted_alone() -> None:
    """Judged GPU by GPU, the small one would fit on GPU 1, and both would go."""
    ledger = cluster(
        node("n", T4, T4),
        pod("wide", demand(10, cards=2), at="n", card=(0, 1), priority=2),
        pod("high", 3, at="n", card=0, priority=HIGH),
        pod("small", 5, at="n", card=1, priority=1),
    )
    wanted = pod_request(demand(18, cards=2), priority=HIGH)
    assert added(ledger, wanted, "x") == ("wide",)


def test_compute_is_freed_like_memory() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CORE_MEM),
        pod("a", demand(2, core=90), at="n", card=0, priority=5),
        pod("b", demand(2, core=90), at="n", card=1),
    )
    wanted = pod_request(demand(2, core=50), priority=HIGH)
    assert added(ledger, wanted, "x") == ("b",)


def test_a_gpu_that_one_pod_keeps_from_computing_is_cheaper_than_one_that_two_do() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CORE_MEM),
        pod("a", demand(2, core=100), at="n", card=0),
        pod("b", demand(2, core=50), at="n", card=1),
        pod("c", demand(2, core=50), at="n", card=1),
    )
    wanted = pod_request(demand(2, core=60), priority=HIGH)
    assert added(ledger, wanted, "x") == ("a",)


def test_a_gpu_of_another_mode_is_cleared_of_all_its_pods_and_of_no_other() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CGPU),
        *(pod(uid, 2, at="n", card=0, mode=Mode.SHARE) for uid in ("a", "b")),
        pod("c", T4, at="n", card=1, priority=HIGH, mode=Mode.CGPU),
    )
    assert added(ledger, pod_request(4, priority=HIGH), "a") == ("b",)


def test_a_gpu_that_a_pod_of_another_mode_may_not_leave_is_not_cleared() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CGPU),
        pod("a", 2, at="n", card=0, mode=Mode.SHARE, priority=HIGH),
        pod("b", 2, at="n", card=0, mode=Mode.SHARE),
        pod("c", T4, at="n", card=1, priority=5, mode=Mode.CGPU),
    )
    assert added(ledger, pod_request(4, priority=HIGH), "b") == ("c",)


def test_a_gpu_is_cleared_of_the_users_that_it_does_not_serve_together() -> None:
    ledger = cluster(
        node("n", T4, mode=Mode.MPS),
        pod("a", demand(2, user=2000), at="n", card=0),
        pod("b", demand(2, user=None), at="n", card=0),
        pod("c", 2, at="n", card=0),
    )
    assert added(ledger, pod_request(4, priority=HIGH), "x") == ("a", "b")


def test_of_too_many_pods_on_a_gpu_one_has_to_go() -> None:
    ledger = cluster(
        node("n", T4, mode=Mode.CGPU, pods_per_card=2),
        pod("a", 2, at="n", card=0, priority=1),
        pod("b", 2, at="n", card=0, priority=2),
    )
    assert added(ledger, pod_request(4, priority=HIGH), "x") == ("a",)


def test_a_pod_of_unknown_user_evicts_no_pod_on_an_mps_node() -> None:
    ledger = cluster(node("n", T4, mode=Mode.MPS), pod("a", T4, at="n", card=0))
    assert added(ledger, pod_request(demand(4, user=None), priority=HIGH), "a") is None


# --- disruption budgets ---------------------------------------------------------------------------


def test_a_pod_with_an_exhausted_budget_is_spared_while_another_choice_exists() -> None:
    pods = [
        pod("guarded", T4, at="n", card=0, labels={"app": "db"}),
        *(pod(uid, 7, at="n", card=1, priority=9) for uid in ("a", "b")),
    ]
    ledger, wanted = cluster(node("n", T4, T4), *pods), pod_request(T4, priority=HIGH)
    budgets_of = covered(pods, budget(app="db"))
    assert added(ledger, wanted, "x") == ("guarded",)
    assert added(ledger, wanted, "x", budgets_of=budgets_of) == ("a", "b")
    assert added(ledger, wanted, "x", budgets_of=covered(pods, budget(allowed=1, app="db"))) == ("guarded",)


def test_on_one_gpu_a_pod_with_an_exhausted_budget_is_spared_before_a_more_important_one() -> None:
    pods = [
        pod("guarded", 7, at="n", card=0, labels={"app": "db"}),
        pod("important", 7, at="n", card=0, priority=9),
    ]
    ledger = cluster(node("n", T4), *pods)
    assert added(ledger, pod_request(7, priority=HIGH), "x", budgets_of=covered(pods, budget(app="db"))) == (
        "important",
    )


@pytest.mark.parametrize(
    ("proposed", "allowed", "violations"),
    [((), 0, 3), ((), 1, 2), ((), 3, 0), (("x",), 1, 2), (("a",), 1, 2), (("a",), 3, 0), (("a", "b"), 2, 1)],
)
def test_the_added_victims_that_exceed_a_budget_are_counted(
    proposed: tuple[str, ...], allowed: int, violations: int
) -> None:
    """The scheduler has counted its own victims, which use the budget first."""
    pods = [pod(uid, 4, at="n", card=0, labels={"app": "db"}) for uid in ("a", "b", "c")]
    ledger = cluster(node("n", 12), *pods)
    budgets_of = covered(pods, budget(allowed=allowed, app="db"))
    found = victims_on(ledger.books["n"], pod_request(12, priority=HIGH), proposed, budgets_of)
    assert found is not None
    assert set(found.uids) == {"a", "b", "c", *proposed}
    assert found.violations == violations


def test_a_pod_that_is_evicted_already_uses_no_budget() -> None:
    pods = [pod("a", T4, at="n", card=0, labels={"app": "db"})]
    ledger = cluster(node("n", T4), *pods)
    disrupted = replace(budget(app="db"), disrupted=frozenset({"a"}))
    found = victims_on(ledger.books["n"], pod_request(4, priority=HIGH), ("x",), covered(pods, disrupted))
    assert found == Victims(("x", "a"))
