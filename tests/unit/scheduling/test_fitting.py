"""Whether and where a pod fits on a node, and the texts of rejections."""

from dataclasses import replace

import pytest

from gpushare.model.annotations import Shares
from gpushare.model.demand import Amount, Demand, demand_of
from gpushare.model.modes import Mode
from gpushare.model.objects import Node
from gpushare.scheduling.advice.refusals import refusal
from gpushare.scheduling.events import PodDeleted, UnhealthyObserved
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from gpushare.scheduling.ledger import Ledger, apply
from tests.support.builders.scheduling import (
    T4,
    V16,
    cluster,
    demand,
    main,
    node,
    pod,
    pod_request,
    reserved,
    seen,
    sound,
)


def placed(ledger: Ledger, who: PodRequest, name: str = "n") -> Shares:
    found = place(ledger.books[name], who)
    assert not isinstance(found, Rejection), found.text
    return found


def refused(ledger: Ledger, who: PodRequest, name: str = "n") -> Rejection:
    """The rejection with the amounts of the node."""
    found = place(ledger.books[name], who)
    assert isinstance(found, Rejection), found
    return Rejection(refusal(ledger.books[name], who), found.unresolvable)


# --- one GPU --------------------------------------------------------------------------------------


def test_a_pod_gets_one_gpu() -> None:
    assert placed(cluster(node("n", T4)), pod_request(4)) == ((0, Amount(4)),)


def test_a_pod_may_fill_a_gpu_to_the_last_unit() -> None:
    assert placed(cluster(node("n", T4), pod("a", 4, at="n", card=0)), pod_request(10)) == ((0, Amount(10)),)


def test_free_units_on_different_gpus_do_not_fit() -> None:
    """Node N2 of the ACK documentation: 8138 MiB free in all, 4069 on each GPU."""
    ledger = cluster(node("n", V16, V16), pod("a", 12_207, at="n", card=0), pod("b", 12_207, at="n", card=1))
    found = refused(ledger, pod_request(8138))
    assert found == Rejection(
        "Insufficient GPU Memory in one device: asked 8138, at most 4069 of 16276 free on GPU 0"
    )


def test_a_pod_larger_than_any_gpu_fits_nowhere_and_eviction_does_not_help() -> None:
    found = refused(cluster(node("n", 8, T4)), pod_request(15))
    assert found == Rejection(
        "Insufficient GPU Memory in one device: asked 15, the largest GPU has 14", unresolvable=True
    )


def test_a_rejection_names_the_gpus_that_are_unschedulable() -> None:
    ledger = cluster(node("n", T4, T4, broken=(1,)), pod("a", 12, at="n", card=0))
    assert refused(ledger, pod_request(4)).text.endswith(
        "asked 4, at most 2 of 14 free on GPU 0 (unschedulable: GPU 1)"
    )


def test_a_pod_that_requests_nothing_fits_on_a_full_gpu_but_not_on_an_unschedulable_one() -> None:
    full = cluster(node("n", T4), pod("a", T4, at="n", card=0))
    assert placed(full, pod_request(0)) == ((0, Amount(0)),)
    assert refused(apply(full, UnhealthyObserved("n", frozenset({0}))), pod_request(0))


def test_an_overcommitted_gpu_gets_nothing_however_little_is_asked() -> None:
    """The Aliyun extender counts unsigned: an over-committed GPU looks empty there."""
    ledger = cluster(node("n", T4, T4), *[pod(uid, 12, at="n", card=0) for uid in ("a", "b")])
    assert placed(ledger, pod_request(1)) == ((1, Amount(1)),)
    ledger = cluster(node("n", T4), *[pod(uid, 12, at="n", card=0) for uid in ("a", "b")])
    assert refused(ledger, pod_request(0)).text.endswith("no GPU is usable (unschedulable: GPU 0)")


def test_a_pods_policy_decides_the_gpu() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 4, at="n", card=0))
    assert placed(ledger, pod_request(4)) == ((0, Amount(4)),)
    assert placed(ledger, pod_request(4, placement="spread")) == ((1, Amount(4)),)


# --- nodes that do not share ----------------------------------------------------------------------


def test_an_unknown_node_may_yet_appear() -> None:
    ledger = cluster(pod("a", 4, at="n", card=0))
    assert refused(ledger, pod_request(4)) == Rejection('node "n" not found')


def test_a_node_without_gpus_is_reported_as_the_aliyun_extender_does() -> None:
    assert refused(cluster(node("n")), pod_request(4)) == Rejection(
        "The node n is not for GPU share, need skip", unresolvable=True
    )


def test_an_unschedulable_node_is_reported_with_its_reason() -> None:
    ledger = cluster(node("n", T4, closed="label gpushare=false"))
    assert refused(ledger, pod_request(4)) == Rejection(
        "The node n is not for GPU share, need skip: label gpushare=false", unresolvable=True
    )


# --- compute --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [Mode.SHARE, Mode.CGPU])
def test_compute_is_rejected_on_nodes_that_do_not_divide_it(mode: Mode) -> None:
    assert refused(cluster(node("n", T4, mode=mode)), pod_request(demand(4, core=10))) == Rejection(
        f"node mode {mode} does not divide compute (aliyun.com/gpu-core.percentage)", unresolvable=True
    )


def test_a_core_mem_node_takes_only_pods_that_request_compute() -> None:
    ledger = cluster(node("n", T4, mode=Mode.CORE_MEM))
    assert refused(ledger, pod_request(4)) == Rejection(
        "node mode core_mem takes only pods that ask for aliyun.com/gpu-core.percentage", unresolvable=True
    )
    assert placed(ledger, pod_request(demand(4, core=10))) == ((0, Amount(4, 10)),)


def test_an_mps_node_takes_both_kinds() -> None:
    ledger = cluster(node("n", T4, mode=Mode.MPS))
    assert placed(ledger, pod_request(4))
    assert placed(ledger, pod_request(demand(4, core=10)))


def test_an_mps_node_allocates_one_gpu_to_a_pod() -> None:
    ledger = cluster(node("n", T4, T4, mode=Mode.MPS))
    assert refused(ledger, pod_request(demand(4, cards=2))) == Rejection(
        "node mode mps allocates one GPU to a pod, not 2: remove the label aliyun.com/gpu-count",
        unresolvable=True,
    )


def test_a_gpu_without_free_compute_is_full_regardless_of_memory() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CORE_MEM),
        pod("a", demand(2, core=80), at="n", card=0),
        pod("b", demand(2, core=65), at="n", card=1),
    )
    assert placed(ledger, pod_request(demand(2, core=35))) == ((1, Amount(2, 35)),)
    assert refused(ledger, pod_request(demand(2, core=40))) == Rejection(
        "Insufficient GPU Memory in one device: asked 2 and 40 % of compute,"
        " at most 12 of 14 free on GPU 0; % of compute free: 20 on GPU 0, 35 on GPU 1"
    )


# --- GPUs never mix modes -------------------------------------------------------------------------

RELABELLED = (
    node("n", T4, T4, mode=Mode.CGPU),
    pod("a", 4, at="n", card=0, mode=Mode.SHARE),
)


def test_a_pod_goes_to_a_gpu_without_pods_of_another_mode() -> None:
    assert placed(cluster(*RELABELLED), pod_request(4)) == ((1, Amount(4)),)


def test_a_pod_for_which_only_a_gpu_of_another_mode_fits_is_reported_and_may_preempt() -> None:
    ledger = cluster(*RELABELLED, pod("b", 10, at="n", card=1, mode=Mode.CGPU))
    assert refused(ledger, pod_request(6)) == Rejection(
        "Insufficient GPU Memory in one device: asked 6, at most 4 of 14 free on GPU 1"
        " (unschedulable: GPU 0 until pods of mode share are gone)"
    )


def test_a_gpu_opens_when_its_pods_of_another_mode_are_gone_or_the_mode_is_back() -> None:
    ledger = cluster(*RELABELLED)
    assert placed(apply(ledger, PodDeleted("a")), pod_request(4)) == ((0, Amount(4)),)
    assert placed(seen(ledger, node("n", T4, T4)), pod_request(4)) == ((0, Amount(4)),)


def test_a_pod_that_we_bind_is_of_the_mode_that_the_node_has_then() -> None:
    ledger = reserved(cluster(node("n", T4)), pod("a", 4), "n")
    ledger = seen(ledger, node("n", T4, mode=Mode.CGPU))
    assert "GPU 0 until pods of mode share are gone" in refused(ledger, pod_request(4)).text


def test_units_are_reserved_for_a_nominee_once_the_pods_of_another_mode_have_gone() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CGPU),
        pod("old", 4, at="n", card=0, mode=Mode.SHARE, terminating=True),
        pod("full", 10, at="n", card=1),
        pod("nominee", 12, priority=10, nominated="n"),
    )
    cleared = apply(ledger, PodDeleted("old"))
    assert (
        "reserved for default/nominee, which is nominated to the node"
        in refused(cleared, pod_request(5)).text
    )
    assert placed(cleared, pod_request(12, uid="nominee", priority=10)) == ((0, Amount(12)),)


# --- the maximum of pods on a GPU ------------------------------------------------------------------


def test_a_pod_goes_to_a_gpu_that_may_have_one_more() -> None:
    ledger = cluster(
        node("n", T4, T4, mode=Mode.CGPU, pods_per_card=2),
        *(pod(uid, 2, at="n", card=0) for uid in ("a", "b")),
        pod("c", 2, at="n", card=1),
    )
    assert placed(ledger, pod_request(2)) == ((1, Amount(2)),)
    assert refused(seen(ledger, pod("d", 2, at="n", card=1)), pod_request(2)) == Rejection(
        "Insufficient GPU Memory in one device: asked 2,"
        " no GPU is usable (unschedulable: GPU 0,1 with 2 of 2 pods)"
    )


def test_a_nominee_counts_among_the_pods_of_a_gpu() -> None:
    ledger = cluster(
        node("n", T4, pods_per_card=2),
        pod("a", 2, at="n", card=0),
        pod("nominee", 2, priority=10, nominated="n"),
    )
    assert (
        "reserved for default/nominee, which is nominated to the node" in refused(ledger, pod_request(2)).text
    )


# --- one user on a GPU with MPS --------------------------------------------------------------------

OTHER = 2000


def test_pods_of_one_user_share_a_gpu_and_those_of_another_get_one_of_their_own() -> None:
    ledger = cluster(node("n", T4, T4, mode=Mode.MPS), pod("a", 4, at="n", card=0))
    assert placed(ledger, pod_request(4)) == ((0, Amount(4)),)
    assert placed(ledger, pod_request(demand(4, user=OTHER))) == ((1, Amount(4)),)


def test_if_every_gpu_serves_another_user_the_rejection_names_them() -> None:
    ledger = cluster(
        node("n", T4, T4, T4, mode=Mode.MPS),
        pod("a", 4, at="n", card=0),
        pod("b", demand(6, user=None), at="n", card=1),
        pod("c", demand(12, user=OTHER), at="n", card=2),
    )
    assert refused(ledger, pod_request(demand(4, user=OTHER))) == Rejection(
        "Insufficient GPU Memory in one device: asked 4, at most 10 of 14 free on GPU 0;"
        " the pod runs as user 2000, GPU 0 serves 1000, GPU 1 serves an unknown one"
    )


def test_a_pod_of_unknown_gpu_keeps_other_users_from_every_gpu() -> None:
    ledger = cluster(node("n", T4, T4, mode=Mode.MPS), pod("a", 4, at="n"))
    assert refused(ledger, pod_request(demand(4, user=OTHER)))
    assert placed(ledger, pod_request(4))


def test_a_pod_with_the_user_of_its_image_is_rejected_with_the_remedy() -> None:
    ledger = cluster(node("n", T4, mode=Mode.MPS))
    assert refused(ledger, pod_request(demand(4, user=None))) == Rejection(
        "node mode mps serves one user on a GPU, and the user of container main is not known:"
        " set securityContext.runAsUser, without hostUsers: false",
        unresolvable=True,
    )


def test_the_rejection_of_a_pod_with_several_users_names_the_containers() -> None:
    listed = main(2), main(2, name="side", user=OTHER), main(0, name="idle", user=None)
    assert refused(cluster(node("n", T4, mode=Mode.MPS)), pod_request(sound(demand_of(listed)))) == Rejection(
        "node mode mps serves one user on a GPU, and the pod's containers run as several users"
        " (main 1000, side 2000): give them one securityContext.runAsUser",
        unresolvable=True,
    )


def test_containers_that_use_no_gpu_may_run_as_any_user() -> None:
    listed = main(2), main(0, name="idle", user=None), main(0, name="other", user=OTHER)
    assert placed(cluster(node("n", T4, mode=Mode.MPS)), pod_request(sound(demand_of(listed))))


@pytest.mark.parametrize("place_", [node("n", T4, mode=Mode.MPS, multi_user=True), node("n", T4)])
def test_elsewhere_users_share_gpus(place_: Node) -> None:
    ledger = cluster(place_, pod("a", 4, at="n", card=0))
    assert placed(ledger, pod_request(demand(4, user=OTHER)))
    assert placed(ledger, pod_request(demand(4, user=None)))


def test_units_are_reserved_for_a_nominee_against_other_users_too() -> None:
    ledger = cluster(node("n", T4, mode=Mode.MPS), pod("nominee", 4, priority=10, nominated="n"))
    assert (
        "reserved for default/nominee, which is nominated to the node"
        in refused(ledger, pod_request(demand(4, user=OTHER))).text
    )
    assert placed(ledger, pod_request(4))


def test_a_nominee_that_the_node_takes_no_more_reserves_nothing() -> None:
    nominee = pod("nominee", demand(T4, user=None), priority=10, nominated="n")
    assert placed(cluster(node("n", T4, mode=Mode.MPS), nominee), pod_request(T4))


# --- several GPUs ---------------------------------------------------------------------------------


def test_a_pod_on_several_gpus_gets_equal_units() -> None:
    ledger = cluster(node("n", T4, T4, T4), pod("a", 12, at="n", card=0))
    assert placed(ledger, pod_request(demand(8, cards=2))) == ((1, Amount(4)), (2, Amount(4)))


def test_all_its_gpus_must_fit() -> None:
    ledger = cluster(node("n", T4, T4), pod("a", 12, at="n", card=0))
    assert refused(ledger, pod_request(demand(8, cards=2))) == Rejection(
        "Insufficient GPU Memory in one device: asked 4 on each of 2 GPUs, at most 14 of 14 free on GPU 1"
    )


def test_more_gpus_than_the_node_has_are_unresolvable() -> None:
    assert refused(cluster(node("n", T4)), pod_request(demand(8, cards=2))) == Rejection(
        "Insufficient GPU Memory in one device: asked 4 on each of 2 GPUs, the node has 1", unresolvable=True
    )


def test_a_pod_may_request_more_than_one_gpu_has_if_the_units_per_gpu_fit() -> None:
    assert placed(cluster(node("n", T4, T4)), pod_request(demand(28, cards=2))) == (
        (0, Amount(14)),
        (1, Amount(14)),
    )


# --- units reserved for nominees ------------------------------------------------------------------

VICTIM = pod("victim", 10, at="n", card=0, terminating=True)


def waiting(units: int | Demand = 10, priority: int = 10) -> Ledger:
    """GPU 0 is being cleared for a nominated pod; GPU 1 is full."""
    return cluster(
        node("n", T4, T4),
        VICTIM,
        pod("full", T4, at="n", card=1),
        pod("nominee", units, priority=priority, nominated="n"),
    )


def test_units_that_are_free_now_are_reserved_for_a_nominee_that_will_need_them() -> None:
    ledger = cluster(node("n", T4), pod("nominee", 12, priority=10, nominated="n"))
    assert refused(ledger, pod_request(4)).text == (
        "Insufficient GPU Memory in one device: asked 4, at most 14 of 14 free on GPU 0;"
        " reserved for default/nominee, which is nominated to the node"
    )
    assert placed(ledger, pod_request(2))


def test_a_gpu_cleared_for_a_nominee_is_not_allocated_to_others() -> None:
    ledger = waiting(12)
    assert refused(ledger, pod_request(4))
    cleared = apply(ledger, PodDeleted("victim"))
    assert (
        "reserved for default/nominee, which is nominated to the node"
        in refused(cleared, pod_request(4)).text
    )
    assert placed(cleared, pod_request(12, uid="nominee", priority=10)) == ((0, Amount(12)),)


def test_units_that_the_nominee_does_not_need_are_free() -> None:
    assert placed(waiting(10), pod_request(4)) == ((0, Amount(4)),)
    assert refused(waiting(12), pod_request(4))


def test_a_nominee_of_equal_priority_is_respected_and_one_of_lower_priority_is_not() -> None:
    cleared = apply(waiting(12, priority=5), PodDeleted("victim"))
    assert refused(cleared, pod_request(4, priority=4))
    assert refused(cleared, pod_request(4, priority=5))
    assert placed(cleared, pod_request(4, priority=6))


def test_of_two_nominees_of_equal_priority_the_older_does_not_wait() -> None:
    pods = [pod(uid, 6, nominated="n", created=f"2026-11-27T10:0{age}:00Z") for age, uid in enumerate("ba")]
    ledger = cluster(node("n", 8), *pods)
    assert placed(ledger, pod_request(6, uid="b"))
    assert refused(ledger, pod_request(6, uid="a")) == Rejection(
        "Insufficient GPU Memory in one device: asked 6, at most 8 of 8 free on GPU 0;"
        " reserved for default/b, which is nominated to the node"
    )
    assert "reserved for default/b and others, which are nominated" in refused(ledger, pod_request(6)).text


def test_a_bind_leaves_units_to_nominees_of_higher_priority_only() -> None:
    """A nominee that came after filter would otherwise undo what the scheduler has decided."""
    ledger = cluster(node("n", 8), pod("nominee", 6, priority=5, nominated="n"))
    for priority, binds in ((4, False), (5, True)):
        who = pod_request(6, priority=priority)
        assert isinstance(place(ledger.books["n"], who), Rejection)
        found = place(ledger.books["n"], replace(who, binding=True))
        assert isinstance(found, Rejection) == (not binds)


def test_a_nominee_does_not_block_itself() -> None:
    cleared = apply(waiting(12), PodDeleted("victim"))
    assert placed(cleared, pod_request(12, uid="nominee", priority=10))


def test_another_gpu_stays_open_to_others() -> None:
    ledger = cluster(node("n", T4, T4), VICTIM, pod("nominee", 12, priority=10, nominated="n"))
    assert placed(ledger, pod_request(4)) == ((1, Amount(4)),)


def test_two_nominees_are_placed_one_after_the_other_the_higher_first() -> None:
    ledger = cluster(
        node("n", T4, T4),
        pod("low", 6, priority=5, nominated="n"),
        pod("high", 10, priority=10, nominated="n"),
    )
    assert placed(ledger, pod_request(4)) == ((0, Amount(4)),)
    assert placed(ledger, pod_request(8)) == ((1, Amount(8)),)
    assert refused(ledger, pod_request(9))
    assert placed(ledger, pod_request(10, priority=6)) == ((1, Amount(10)),)


def test_units_are_reserved_on_the_gpu_that_the_nominees_policy_chooses() -> None:
    things = node("n", T4, T4), pod("a", 4, at="n", card=0)
    for placement, left in (("binpack", 1), ("spread", 0)):
        nominee = pod("nominee", 8, priority=10, nominated="n", placement=placement)
        assert placed(cluster(*things, nominee), pod_request(7)) == ((left, Amount(7)),)


def test_a_nominee_that_will_not_fit_here_after_all_reserves_nothing() -> None:
    assert placed(cluster(node("n", T4), pod("nominee", 15, priority=10, nominated="n")), pod_request(T4))


def test_a_placed_nominee_reserves_no_units_again() -> None:
    ledger = cluster(node("n", T4, T4), pod("nominee", 12, priority=10, nominated="n"))
    ledger = reserved(ledger, pod("nominee", 12, priority=10), "n")
    assert "nominee" in ledger.books["n"].nominees
    assert placed(ledger, pod_request(4)) == ((1, Amount(4)),)


def test_a_nominee_for_several_gpus_reserves_units_on_all_of_them() -> None:
    ledger = cluster(node("n", T4, T4), pod("nominee", demand(24, cards=2), priority=10, nominated="n"))
    assert refused(ledger, pod_request(3))
    assert placed(ledger, pod_request(2))


def test_a_pod_request_for_several_gpus_leaves_the_nominee_its_gpu() -> None:
    nominee = pod("nominee", 12, priority=10, nominated="n")
    wanted = pod_request(demand(8, cards=2))
    assert refused(cluster(node("n", T4, T4), nominee), wanted)
    assert placed(cluster(node("n", T4, T4, T4), nominee), wanted) == ((1, Amount(4)), (2, Amount(4)))


def test_a_nominee_reserves_compute_too() -> None:
    nominee = pod("nominee", demand(2, core=70), priority=10, nominated="n")
    ledger = cluster(node("n", T4, mode=Mode.MPS), nominee)
    assert refused(ledger, pod_request(demand(2, core=35)))
    assert placed(ledger, pod_request(demand(2, core=30)))
