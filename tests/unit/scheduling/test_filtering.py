"""Filter and prioritize over many nodes."""

import pytest

from gpushare.model.cards import Card
from gpushare.model.modes import Mode
from gpushare.model.objects import Node
from gpushare.scheduling.events import Confirmed, PodDeleted, PodObserved
from gpushare.scheduling.filtering import FilterOutcome, filter_nodes, filter_steps, score_steps
from gpushare.scheduling.ledger import Ledger, apply
from tests.support.builders.scheduling import (
    T4,
    V16,
    cluster,
    demand,
    node,
    pod,
    pod_request,
    reserved,
    score,
)
from tests.support.steps import counted, finished


def diagram() -> Ledger:
    """The three nodes of the ACK documentation: 4069, 8138 and 8138 MiB free, but only N3 on one GPU."""
    return cluster(
        *(node(name, V16, V16) for name in ("N1", "N2", "N3")),
        pod("a", 16_276, at="N1", card=0),
        pod("b", 12_207, at="N1", card=1),
        pod("c", 12_207, at="N2", card=0),
        pod("d", 12_207, at="N2", card=1),
        pod("e", 8_138, at="N3", card=0),
        pod("f", 16_276, at="N3", card=1),
    )


# --- filter ---------------------------------------------------------------------------------------


def test_the_example_of_the_ack_diagram() -> None:
    assert filter_nodes(diagram(), pod_request(8138), ["N1", "N2", "N3"]) == FilterOutcome(
        passed=["N3"],
        failed={
            "N1": "Insufficient GPU Memory in one device: asked 8138",
            "N2": "Insufficient GPU Memory in one device: asked 8138",
        },
    )


def test_nodes_pass_in_the_order_of_the_request() -> None:
    ledger = cluster(node("a", T4), node("b", T4), node("c", T4))
    assert filter_nodes(ledger, pod_request(4), ["c", "a", "b"]).passed == ["c", "a", "b"]


def test_only_nodes_of_the_request_are_evaluated() -> None:
    assert filter_nodes(cluster(node("a", T4), node("b", T4)), pod_request(4), ["b"]) == FilterOutcome(
        passed=["b"]
    )


def test_a_pod_as_large_as_the_gpu_waits_for_it_and_is_not_unresolvable() -> None:
    ledger = cluster(node("n", T4), pod("p", 1, at="n", card=0))
    assert filter_nodes(ledger, pod_request(T4), ["n"]).failed == {
        "n": "Insufficient GPU Memory in one device: asked 14"
    }


def test_a_node_that_was_never_seen_is_not_found() -> None:
    assert filter_nodes(cluster(), pod_request(4), ["a"]).failed == {"a": "node not found"}


def test_a_node_that_is_known_by_its_pods_only_is_not_found() -> None:
    assert filter_nodes(cluster(pod("p", 4, at="a", card=0)), pod_request(4), ["a"]).failed == {
        "a": "node not found"
    }


def test_unresolvable_nodes_are_distinguished_from_full_ones() -> None:
    ledger = cluster(
        node("none"), node("closed", T4, closed="why"), node("full", T4), pod("p", T4, at="full", card=0)
    )
    outcome = filter_nodes(ledger, pod_request(4), ["none", "closed", "full"])
    assert set(outcome.unresolvable) == {"none", "closed"}
    assert set(outcome.failed) == {"full"}


def test_a_pod_that_requests_nothing_passes_everywhere() -> None:
    ledger = cluster(
        node("closed", 14, closed="no library"),
        node("broken", 14, broken=(0,)),
        node("of core_mem", 14, mode=Mode.CORE_MEM),
        node("full", 4),
        pod("a", 4, at="full", card=0),
    )
    names = ["closed", "broken", "of core_mem", "full", "without GPUs"]
    assert finished(filter_steps(ledger, pod_request(0), names, 1)).passed == names
    assert finished(score_steps(ledger, pod_request(0), names)) == dict.fromkeys(names, 0)


@pytest.mark.parametrize("mode", Mode)
def test_few_texts_that_stay_the_same_while_pods_come_and_go(mode: Mode) -> None:
    """The scheduler joins the different texts, and writes every waiting pod again when they change."""
    names = [f"node-{i}" for i in range(200)]
    nodes = [
        node(name, *[8 + i % 7] * (1 + i % 3), mode=mode, whole={0: (f"default/w{i}",)} if i % 5 else {})
        for i, name in enumerate(names)
    ]
    ledger = cluster(
        *nodes, *(pod(f"p{i}", demand(1 + i % 8, core=i % 18 * 5), at=name) for i, name in enumerate(names))
    )
    who = pod_request(demand(14, core=0 if mode in (Mode.SHARE, Mode.CGPU) else 100))
    before = filter_nodes(ledger, who, [*names, "unknown", "not-known"])
    assert len({*before.failed.values(), *before.unresolvable.values()}) <= 3
    changed = apply(ledger, PodObserved(pod("more", demand(1, core=5), at="node-7", card=0)))
    after = filter_nodes(changed, who, [*names, "unknown", "not-known"])
    assert after == before


def test_units_reserved_for_a_nominee_are_not_free_for_others() -> None:
    ledger = cluster(node("n", T4), pod("nominee", 12, priority=10, nominated="n"))
    assert filter_nodes(ledger, pod_request(4), ["n"]).failed
    assert filter_nodes(ledger, pod_request(2), ["n"]).passed == ["n"]
    assert filter_nodes(ledger, pod_request(12, uid="nominee", priority=10), ["n"]).passed == ["n"]


def test_a_pod_with_a_bind_in_progress_fits_only_its_node() -> None:
    ledger = reserved(cluster(node("a", T4), node("b", T4)), pod("p", 10), "a")
    assert filter_nodes(ledger, pod_request(10, uid="p"), ["b", "a", "c"]) == FilterOutcome(
        passed=["a"],
        failed=dict.fromkeys(("b", "c"), "a bind of this pod to node a is not confirmed yet"),
    )


def test_a_pod_that_is_bound_already_can_only_stay() -> None:
    ledger = reserved(cluster(node("a", T4), node("b", T4)), pod("p", 10), "a")
    assert filter_nodes(apply(ledger, Confirmed("p")), pod_request(10, uid="p"), ["a", "b"]).passed == ["a"]


# --- prioritize -----------------------------------------------------------------------------------


def on_nodes(placement: str, **free_units: int) -> Ledger:
    """One card of 100 units per node, so many units free."""
    return cluster(
        *(node(name, 100, placement=placement) for name in free_units),
        *(pod(f"on-{name}", 100 - units, at=name, card=0) for name, units in free_units.items()),
    )


def test_binpack_prefers_the_node_that_is_left_with_least() -> None:
    ledger = on_nodes("binpack", full=20, half=50, empty=99)
    scores = [score(ledger, pod_request(20), name) for name in ("full", "half", "empty")]
    assert scores == [10, 7, 3]


def test_spread_prefers_the_node_that_is_left_with_most() -> None:
    ledger = on_nodes("spread", full=20, half=50, empty=99)
    scores = [score(ledger, pod_request(20), name) for name in ("full", "half", "empty")]
    assert scores == [1, 4, 8]


def test_the_pods_policy_decides_the_ranking_too() -> None:
    ledger = on_nodes("binpack", full=20, empty=99)
    spread = pod_request(20, placement="spread")
    assert score(ledger, spread, "full") < score(ledger, spread, "empty")


def test_the_score_is_that_of_the_gpu_that_would_be_chosen() -> None:
    ledger = cluster(node("n", 100, 100), pod("p", 60, at="n", card=1))
    assert score(ledger, pod_request(40), "n") == 10


def test_all_gpus_of_a_pod_on_several_count() -> None:
    ledger = cluster(node("n", 100, 100), pod("p", 60, at="n", card=1))
    assert score(ledger, pod_request(demand(80, cards=2)), "n") == 7


@pytest.mark.parametrize("name", ["full", "closed", "unknown"])
def test_a_node_that_does_not_fit_scores_nothing(name: str) -> None:
    ledger = cluster(node("full", T4), node("closed", T4, closed="why"), pod("p", T4, at="full", card=0))
    assert score(ledger, pod_request(4), name) == 0


@pytest.mark.parametrize(("model", "points"), [("Tesla T4", 8), ("", 8), ("NVIDIA GeForce RTX 3090", 0)])
def test_gpus_of_a_known_model_outside_the_table_come_last(model: str, points: int) -> None:
    ledger = cluster(Node("n", (Card(0, 100, model=model),)))
    assert score(ledger, pod_request(80), "n") == points
    assert filter_nodes(ledger, pod_request(80), ["n"]).passed == ["n"]


def test_a_score_is_not_cached_for_another_demand_or_another_ledger() -> None:
    ledger = cluster(node("n", 100), pod("p", 20, at="n", card=0))
    asked = [pod_request(80), pod_request(40), pod_request(40, placement="spread"), pod_request(81)]
    assert [score(ledger, who, "n") for who in asked] == [10, 6, 5, 0]
    assert [score(ledger, who, "n") for who in asked] == [10, 6, 5, 0]
    assert score(apply(ledger, PodDeleted("p")), pod_request(80), "n") == 8


def test_a_score_is_not_cached_for_other_compute_or_more_gpus() -> None:
    ledger = cluster(node("n", 100, mode=Mode.MPS), pod("p", demand(20, core=80), at="n", card=0))
    asked = [demand(40), demand(40, core=20), demand(40, core=25), demand(40, cards=2)]
    assert [score(ledger, pod_request(wanted), "n") for wanted in asked] == [6, 6, 0, 0]


def test_a_score_is_not_cached_for_another_user() -> None:
    ledger = cluster(node("n", 100, mode=Mode.MPS), pod("p", 20, at="n", card=0))
    asked = [demand(40), demand(40, user=2000), demand(40, user=None)]
    assert [score(ledger, pod_request(wanted), "n") for wanted in asked] == [6, 0, 0]


def test_filter_returns_the_same_before_and_after_the_scores_are_known() -> None:
    ledger = cluster(
        *(node(name, T4, mode=Mode.MPS) for name in ("n", "m")),
        pod("p", demand(4, user=2000), at="m", card=0),
    )
    before = filter_nodes(ledger, pod_request(4), ["n", "m"])
    assert [score(ledger, pod_request(4), name) > 0 for name in ("n", "m")] == [True, False]
    assert filter_nodes(ledger, pod_request(4), ["n", "m"]) == before
    assert before.passed == ["n"]


def test_a_nominee_scores_by_its_own_units() -> None:
    ledger = cluster(node("n", 100), pod("nominee", 60, priority=10, nominated="n"))
    assert score(ledger, pod_request(60), "n") == 0
    assert score(ledger, pod_request(60, uid="nominee", priority=10), "n") > 0


def test_a_pod_that_goes_frees_its_units_at_once() -> None:
    ledger = diagram()
    assert filter_nodes(apply(ledger, PodDeleted("c")), pod_request(8138), ["N2"]).passed == ["N2"]


def test_a_step_evaluates_a_limited_number_of_nodes() -> None:
    names = [f"n{number:04}" for number in range(1000)]
    ledger = cluster(*(node(name, T4, T4) for name in names))
    for wanted, expected in ((4, 2), (demand(8, cards=2), 20), (demand(4, core=10), 20)):
        steps, outcome = counted(filter_steps(ledger, pod_request(wanted), names))
        assert steps == expected
        assert outcome == filter_nodes(ledger, pod_request(wanted), names)


def test_a_step_evaluates_fewer_nodes_if_pods_are_nominated() -> None:
    """Each of these pods takes tens of microseconds, also for a simple demand."""
    names = [f"n{number:03}" for number in range(100)]
    waiting = [
        pod(f"{name}-{number}", 1, nominated=name, priority=1) for name in names[:50] for number in range(4)
    ]
    ledger = cluster(*(node(name, T4, T4) for name in names), *waiting)
    for steps_of in (filter_steps, score_steps):
        steps, _ = counted(steps_of(ledger, pod_request(4), names))
        assert steps == 11
    assert finished(filter_steps(ledger, pod_request(4), names)) == filter_nodes(
        ledger, pod_request(4), names
    )


def test_scores_that_are_known_need_no_steps() -> None:
    names = [f"n{number:04}" for number in range(1000)]
    ledger = cluster(*(node(name, T4) for name in names))
    first, scores = counted(score_steps(ledger, pod_request(4), names))
    again, same = counted(score_steps(ledger, pod_request(4), names))
    assert (first, again) == (20, 0)
    assert scores == same


def test_a_ledger_that_changes_between_steps_keeps_no_results_of_the_ledger_before() -> None:
    names = [f"n{number:03}" for number in range(200)]
    ledger = cluster(*(node(name, T4, T4) for name in names))
    who = pod_request(demand(2 * T4, cards=2))
    for steps in (filter_steps(ledger, who, names), score_steps(ledger, who, names)):
        next(steps)
        after = apply(ledger, *(PodObserved(pod(name, 4, at=name, card=0)) for name in names))
        finished(steps)
        assert filter_nodes(after, who, names).passed == []
        assert set(finished(score_steps(after, who, names)).values()) == {0}
