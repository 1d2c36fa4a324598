from dataclasses import replace
from typing import Any

import pytest

from gpushare.contract import ANN_OTHER_GPU, ANN_SAME_GPU, ANN_USE_UUIDS
from gpushare.deviceplugin.core.allocations import AllocateSnapshot, Allocations, Key
from gpushare.deviceplugin.core.decision import Allocated, with_allocation
from gpushare.deviceplugin.core.matching import AllocateCall, contested, core_only, match, match_core
from gpushare.deviceplugin.core.reconcile import join, remembered
from gpushare.model.demand import demand_of
from gpushare.model.gpu_choice import gpu_choice
from gpushare.model.local_node import GpuPod
from gpushare.model.modes import Mode
from tests.support.builders.gpu_pods import allocations, asked, gpu_pod, served, with_gpu_pods
from tests.support.builders.scheduling import demand, init, main, sidecar, sound


def who(
    node: Allocations,
    amount: int,
    *,
    done: frozenset[Key] = frozenset(),
    readable: bool = True,
    **call: Any,
) -> Key | None:
    found = match(AllocateSnapshot(node, done, readable), AllocateCall(amount, **call))
    return (found.gpu_pod.uid, found.container.name) if found else None


def unread(node: Allocations, amount: int, **call: Any) -> Key | None:
    """The same while the checkpoint cannot be read."""
    return who(node, amount, done=remembered(node), readable=False, **call)


def test_the_oldest_pod_of_that_amount_matches() -> None:
    node = with_gpu_pods(allocations(14), gpu_pod("young", 4, bound=2), gpu_pod("old", 4, bound=1))
    assert who(node, 4) == ("old", "main")


def test_a_pod_of_another_amount_does_not_match() -> None:
    assert who(with_gpu_pods(allocations(14), gpu_pod("a", 5)), 4) is None


def test_preferred_ids_distinguish_twins() -> None:
    node = with_gpu_pods(
        allocations(14, 14), gpu_pod("a", 4, card=0, bound=1), gpu_pod("b", 4, card=1, bound=2)
    )
    assert who(node, 4, ids=("GPU-1-_-3",)) == ("b", "main")


def chooser(uid: str, key: str, value: str, **labels: str) -> GpuPod:
    """A pod that asks for 4 units of a GPU that it chooses."""
    choice = gpu_choice(((key, value),), "default")
    made = gpu_pod(uid, replace(demand(4), gpus=choice))
    return replace(made, pod=replace(made.pod, labels=tuple(labels.items())))


@pytest.mark.parametrize(
    ("pods", "equal"),
    [
        ((gpu_pod("a", 4), gpu_pod("b", 4)), True),
        ((chooser("a", ANN_USE_UUIDS, "GPU-0"), gpu_pod("b", 4)), False),
        ((chooser("a", ANN_USE_UUIDS, "GPU-0"), chooser("b", ANN_USE_UUIDS, "GPU-1")), False),
        ((chooser("a", ANN_USE_UUIDS, "GPU-0"), chooser("b", ANN_USE_UUIDS, "GPU-0")), True),
        ((chooser("a", ANN_OTHER_GPU, "x=y", x="y"), chooser("b", ANN_OTHER_GPU, "x=y", x="y")), True),
    ],
)
def test_pods_that_choose_other_gpus_are_no_twins(pods: tuple[GpuPod, ...], *, equal: bool) -> None:
    node = with_gpu_pods(allocations(14, 14), *pods)
    assert contested(AllocateSnapshot(node, frozenset()), AllocateCall(4)) is not equal


def test_a_pod_that_another_one_follows_is_no_twin() -> None:
    pods = gpu_pod("a", 4), gpu_pod("b", 4), replace(chooser("c", ANN_SAME_GPU, "a"), served=True)
    node = with_gpu_pods(allocations(14, 14), *pods)
    assert contested(AllocateSnapshot(node, frozenset()), AllocateCall(4))


def test_containers_are_served_in_their_order_init_containers_first() -> None:
    asks = sound(demand_of([init(2), sidecar(3), main(4), main(5, name="second")]))
    node = with_gpu_pods(allocations(14), gpu_pod("a", asks))
    done: set[tuple[str, str]] = set()
    for amount, name in ((2, "init"), (3, "side"), (4, "main"), (5, "second")):
        assert who(node, amount, done=frozenset(done)) == ("a", name)
        assert who(node, 1, done=frozenset(done)) is None
        done.add(("a", name))
    assert who(node, 5, done=frozenset(done)) is None


def test_containers_without_a_request_are_skipped() -> None:
    asks = sound(demand_of([main(0), main(4, name="second")]))
    assert who(with_gpu_pods(allocations(14), gpu_pod("a", asks)), 4) == ("a", "second")


def test_a_pod_under_admission_ranks_before_an_older_one() -> None:
    asks = sound(demand_of([main(4), main(4, name="second")]))
    node = with_gpu_pods(allocations(14), gpu_pod("old", 4, bound=1), gpu_pod("two", asks, bound=2))
    assert who(node, 4, done=frozenset({("two", "main")})) == ("two", "second")


def test_a_pod_without_allocations_ranks_first() -> None:
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 4, bound=1)), "a", 4, "lead")
    node = with_gpu_pods(node, gpu_pod("b", 4, bound=2))
    assert who(node, 4) == ("b", "main")


def test_a_container_that_the_kubelet_has_forgotten_matches_if_no_other_one_waits() -> None:
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 4)), "a", 4, "lead")
    assert who(node, 4) == ("a", "main")


def test_of_several_containers_that_the_kubelet_has_forgotten_none_matches() -> None:
    """Each of them may be running, or be the one that calls."""
    node = with_gpu_pods(allocations(14), gpu_pod("a", 4), gpu_pod("b", 4))
    node = served(served(node, "a", 4, "x"), "b", 4, "y")
    assert who(node, 4) is None


def test_a_forgotten_container_of_a_pod_under_admission_matches_beside_others() -> None:
    asks = sound(demand_of([main(2), main(4, name="second")]))
    node = with_gpu_pods(allocations(14), gpu_pod("a", asks), gpu_pod("b", 4))
    node = served(served(node, "b", 4, "y"), "a", 2, "x")
    second = asked(node, 4, "z", frozenset({("a", "main"), ("b", "main")}))
    assert isinstance(second, Allocated)
    node = with_allocation(node, replace(second.allocation, confirmed=True))
    assert who(node, 4, done=frozenset({("a", "main")})) == ("a", "second")


def test_without_a_checkpoint_a_container_with_an_allocation_does_not_match() -> None:
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 4)), "a", 4, "lead")
    assert unread(node, 4) is None


def test_without_a_checkpoint_a_container_that_was_forgotten_before_is_a_candidate_too() -> None:
    """It may be the one that calls, so neither of two matches."""
    node = join(served(with_gpu_pods(allocations(14), gpu_pod("a", 4)), "a", 4, "lead"), ())
    assert unread(node, 4) == ("a", "main")
    assert unread(with_gpu_pods(node, gpu_pod("b", 4)), 4) is None


def test_without_a_checkpoint_equal_pods_match_and_unequal_ones_only_if_the_kubelet_knows_one() -> None:
    equal = with_gpu_pods(allocations(14), gpu_pod("a", 4, bound=1), gpu_pod("b", 4, bound=2))
    assert unread(equal, 4) == ("a", "main")
    two = gpu_pod("two", sound(demand_of([main(4), main(2, name="second")])), bound=3)
    unequal = with_gpu_pods(equal, two)
    assert unread(unequal, 4) is None
    assert unread(unequal, 4, known=frozenset({"default/two"})) == ("two", "main")


def test_a_call_after_one_for_compute_is_for_a_container_that_asks_for_both() -> None:
    plain, both = demand_of([main(4)]), demand_of([main(4, 30)])
    node = with_gpu_pods(
        allocations(14, mode=Mode.MPS),
        gpu_pod("plain", sound(plain), bound=1),
        gpu_pod("both", sound(both), bound=2),
    )
    assert who(node, 4, core=30) == ("both", "main")
    found = match_core(AllocateSnapshot(node), 30)
    assert found
    assert found.gpu_pod.uid == "both"
    assert match_core(AllocateSnapshot(node), 35) is None


def test_a_call_after_one_for_compute_that_failed_matches_only_with_a_checkpoint() -> None:
    node = with_gpu_pods(allocations(14, mode=Mode.MPS), gpu_pod("plain", 4))
    assert who(node, 4, core=30) == ("plain", "main")
    assert unread(node, 4, core=30) is None


def test_a_pod_with_compute_only_is_found() -> None:
    node = with_gpu_pods(allocations(14, mode=Mode.CORE_MEM), gpu_pod("a", demand_of([main(0, 30)])))
    found = core_only(node, 30)
    assert found
    assert found.gpu_pod.uid == "a"
    assert match_core(AllocateSnapshot(node), 30) is None


def test_identical_containers_of_one_pod_all_get_the_same_gpu() -> None:
    asks = sound(demand_of([main(2, name=f"c{i}") for i in range(3)]))
    node = with_gpu_pods(allocations(14, 14), gpu_pod("a", asks, card=1))
    for i in range(3):
        decision = asked(node, 2, f"lead-{i}", frozenset(("a", f"c{k}") for k in range(i)))
        assert isinstance(decision, Allocated)
        assert decision.allocation.container == f"c{i}"
        assert decision.allocation.cards == (("GPU-1", 2),)
        node = served(node, "a", 2, f"lead-{i}", f"c{i}") if i == 0 else node


def test_a_running_container_does_not_match() -> None:
    """The kubelet has lost its checkpoint, and the call is for the twin that crashed."""
    runs = replace(gpu_pod("a", 4, bound=1), running=frozenset({"main"}))
    node = with_gpu_pods(allocations(14), runs, gpu_pod("b", 4, bound=2))
    assert who(node, 4) == ("b", "main")


def test_a_rejected_container_ranks_last() -> None:
    node = with_gpu_pods(allocations(14), gpu_pod("a", 4, bound=1), gpu_pod("b", 4, bound=2))
    assert who(node, 4, refused=frozenset({("a", "main")})) == ("b", "main")
    assert who(with_gpu_pods(allocations(14), gpu_pod("a", 4)), 4, refused=frozenset({("a", "main")})) == (
        "a",
        "main",
    )


def test_an_allocation_is_not_repeated_while_another_pod_waits() -> None:
    """The kubelet lost its checkpoint. The rejection may have been that of a twin of the waiting pod."""
    node = served(with_gpu_pods(allocations(8), gpu_pod("has", 4, bound=1)), "has", 4, "lead")
    node = with_gpu_pods(node, gpu_pod("waits", 4, bound=2))
    assert who(node, 4, refused=frozenset({("waits", "main")})) == ("waits", "main")


def test_an_allocation_is_not_repeated_for_a_pod_whose_only_response_was_lost() -> None:
    """It may be that of a twin; the pod that has the allocation still uses it."""
    node = served(with_gpu_pods(allocations(6, 6), gpu_pod("has", 4, card=0, bound=1)), "has", 4, "x")
    node = with_gpu_pods(node, gpu_pod("waits", 4, card=1, bound=2))
    lost = asked(node, 4, "y", frozenset({("has", "main")}))
    assert isinstance(lost, Allocated)
    node = with_allocation(node, lost.allocation)
    assert who(node, 4) == ("waits", "main")


def test_a_lost_response_is_repeated() -> None:
    node = with_gpu_pods(allocations(6), gpu_pod("waits", 4, card=0))
    lost = asked(node, 4, "y")
    assert isinstance(lost, Allocated)
    assert who(with_allocation(node, lost.allocation), 4) == ("waits", "main")


def test_a_pod_under_admission_matches_before_all_others() -> None:
    asks = sound(demand_of([main(2), main(2, name="second")]))
    node = served(with_gpu_pods(allocations(4), gpu_pod("has", asks, bound=1)), "has", 2, "x")
    done = frozenset({("has", "main")})
    second = asked(node, 2, "y", done)
    assert isinstance(second, Allocated)
    node = with_gpu_pods(with_allocation(node, second.allocation), gpu_pod("waits", 2, bound=2))
    assert who(node, 2, done=done, refused=frozenset({("waits", "main")})) == ("has", "second")
