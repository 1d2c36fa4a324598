from dataclasses import replace

import pytest

from gpushare.contract import ANN_SAME_GPU, ANN_USE_UUIDS
from gpushare.deviceplugin.core.allocations import (
    AllocateSnapshot,
    Allocation,
    Allocations,
    Key,
    allocated_shares,
)
from gpushare.deviceplugin.core.decision import (
    Allocated,
    Capabilities,
    decide,
    is_final,
    unmatched,
    with_allocation,
)
from gpushare.deviceplugin.core.interface import Rejected
from gpushare.deviceplugin.core.matching import AllocateCall, match
from gpushare.deviceplugin.core.reconcile import ServedContainer, join, marked, retained
from gpushare.isolation.layout import IsolationMounts
from gpushare.isolation.limits import parse
from gpushare.model.demand import Demand, demand_of
from gpushare.model.gpu_choice import gpu_choice
from gpushare.model.local_node import GpuPod
from gpushare.model.modes import Mode
from tests.support.builders.gpu_pods import allocations, asked, cards, gpu_pod, served, with_gpu_pods
from tests.support.builders.scheduling import demand, init, main, sound

NO_CONTAINERS: frozenset[Key] = frozenset()


def allocated(
    node: Allocations,
    amount: int,
    first_device_id: str = "first_device_id",
    done: frozenset[Key] = NO_CONTAINERS,
) -> Allocation:
    decision = asked(node, amount, first_device_id, done)
    assert isinstance(decision, Allocated), decision
    return decision.allocation


def rejected(node: Allocations, amount: int, first_device_id: str = "first_device_id") -> Rejected:
    decision = asked(node, amount, first_device_id)
    assert isinstance(decision, Rejected), decision
    return decision


def test_a_pod_gets_the_gpu_of_its_annotations() -> None:
    allocation = allocated(with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=1)), 4)
    assert allocation.cards == (("GPU-1", 4),)
    assert not allocation.diverged


def test_a_pod_without_annotations_gets_the_gpu_that_placement_chooses() -> None:
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=1)), "a", 4, "x")
    allocation = allocated(with_gpu_pods(node, gpu_pod("b", 4)), 4)
    assert allocation.cards == (("GPU-1", 4),)
    assert allocation.diverged


def test_units_reserved_for_a_waiting_pod_stay_free() -> None:
    node = with_gpu_pods(allocations(14, 14), gpu_pod("waiting", 12, card=0), gpu_pod("b", 4))
    assert allocated(node, 4).cards == (("GPU-1", 4),)


def test_a_reservation_whose_units_are_allocated_moves() -> None:
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", 12, card=0)), "a", 12, "x")
    allocation = allocated(with_gpu_pods(node, gpu_pod("b", 4, card=0)), 4)
    assert allocation.cards == (("GPU-1", 4),)
    assert allocation.diverged


def test_a_gpu_is_never_allocated_beyond_its_size() -> None:
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 12, card=0)), "a", 12, "x")
    answer = rejected(with_gpu_pods(node, gpu_pod("b", 4, card=0)), 4)
    assert answer.reason == "no_room"
    assert "pod default/b, container main" in answer.text
    assert "asked 4" in answer.text
    assert "at most 2 of 14 free on GPU 0" in answer.text


def test_a_reservation_on_an_unhealthy_gpu_moves() -> None:
    node = with_gpu_pods(allocations(14, 14, broken=(0,)), gpu_pod("a", 4, card=0))
    assert allocated(node, 4).cards == (("GPU-1", 4),)


def test_a_reservation_on_an_unknown_gpu_is_ignored() -> None:
    assert allocated(with_gpu_pods(allocations(14), gpu_pod("a", 4, card=7)), 4).cards == (("GPU-0", 4),)


def test_a_waiting_pod_whose_annotations_name_no_gpu_of_the_node_reserves_nothing() -> None:
    node = with_gpu_pods(allocations(14), gpu_pod("waiting", 12, card=7), gpu_pod("b", 4))
    assert allocated(node, 4).cards == (("GPU-0", 4),)


def test_a_pod_without_annotations_of_a_bind_gets_a_gpu_that_it_may_use() -> None:
    """Such as one with ``nodeName``, which no extender has placed."""
    wanted = choosing(ANN_USE_UUIDS, "GPU-1")
    assert allocated(with_gpu_pods(allocations(14, 14), gpu_pod("a", wanted)), 4).cards == (("GPU-1", 4),)
    nowhere = with_gpu_pods(allocations(14, 14), gpu_pod("a", choosing(ANN_USE_UUIDS, "GPU-x")))
    assert "annotation gpushare.io/use-gpu-uuids=GPU-x: the node has no such GPU" in rejected(nowhere, 4).text


def test_which_other_pods_are_on_a_gpu_was_decided_at_the_bind() -> None:
    wanted = choosing(ANN_SAME_GPU, "friend")
    node = with_gpu_pods(allocations(14, 14), gpu_pod("a", wanted, card=1))
    assert allocated(node, 4).cards == (("GPU-1", 4),)


def test_an_annotation_that_was_edited_after_the_bind_changes_nothing() -> None:
    node = with_gpu_pods(allocations(14, 14), gpu_pod("a", choosing(ANN_USE_UUIDS, "GPU-0"), card=1))
    assert allocated(node, 4).cards == (("GPU-1", 4),)


def choosing(key: str, value: str) -> Demand:
    return replace(demand(4), gpus=gpu_choice(((key, value),), "default"))


def test_several_gpus_have_equal_units() -> None:
    node = with_gpu_pods(allocations(14, 14, 14), gpu_pod("a", demand(8, cards=2), card=(0, 2)))
    assert allocated(node, 8).cards == (("GPU-0", 4), ("GPU-2", 4))


def test_a_container_that_the_kubelet_has_forgotten_gets_the_same_gpu() -> None:
    """Its allocation stays confirmed: whatever the call was for, these units are in use."""
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=1)), "a", 4, "x")
    forgotten = join(node, ())
    again = allocated(forgotten, 4, "y")
    assert (again.cards, again.first_device_id, again.confirmed) == ((("GPU-1", 4),), "", True)
    named = join(with_allocation(forgotten, again), [ServedContainer("a", "main", "y", 4, ("GPU-1",))])
    assert named.by_container["a", "main"].first_device_id == "y"


def test_a_repeated_call_is_not_rejected_for_lack_of_units() -> None:
    """A driver upgrade may have made the GPU smaller than its allocations."""
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 14, card=0)), "a", 14, "x")
    assert allocated(replace(node, cards=cards(13)), 14, "y").cards == (("GPU-0", 14),)


def test_the_second_container_goes_where_the_first_one_is() -> None:
    asks = sound(demand_of([init(4), main(4)]))
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", asks, card=1)), "a", 4, "x", "init")
    assert allocated(node, 4, "x", frozenset({("a", "init")})).cards == (("GPU-1", 4),)


def test_a_pod_does_not_outgrow_the_gpu_of_its_first_container() -> None:
    asks = sound(demand_of([main(4), main(8, name="second")]))
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("b", 4, card=0)), "b", 4, "x")
    node = served(with_gpu_pods(node, gpu_pod("c", 5, card=0)), "c", 5, "y")
    first = Allocation("a", "main", "default/a", (("GPU-0", 4),), "z", confirmed=True)
    node = with_allocation(with_gpu_pods(node, gpu_pod("a", asks)), first)
    answer = asked(node, 8, "z2", frozenset({("a", "main")}))
    assert isinstance(answer, Rejected)
    assert (
        answer.text
        == "pod default/a, container second: its other containers use GPU 0, where its demand of 12 units "
        "does not fit"
    )


def test_the_rejection_of_a_pod_with_a_missing_gpu_has_that_reason() -> None:
    asks = sound(demand_of([main(2), main(3, name="second")]))
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", asks, card=1)), "a", 2, "x")
    answer = asked(replace(node, cards=cards(14)), 3, "y", frozenset({("a", "main")}))
    assert isinstance(answer, Rejected)
    assert "gone from the node" in answer.text


def test_a_malformed_pod_is_rejected_by_name() -> None:
    answer = rejected(with_gpu_pods(allocations(14, 14), gpu_pod("a", demand_of([main(3)], "2"))), 3)
    assert answer.reason == "malformed"
    assert "default/a" in answer.text
    assert "3 cannot be spread evenly over 2 GPUs" in answer.text


def test_a_pod_without_compute_is_rejected_if_the_mode_requires_it() -> None:
    answer = rejected(with_gpu_pods(allocations(14, mode=Mode.CORE_MEM), gpu_pod("a", 4)), 4)
    assert "core_mem" in answer.text


def test_compute_is_counted_on_the_gpu_too() -> None:
    big, small = sound(demand_of([main(1, 80)])), sound(demand_of([main(2, 30)]))
    node = replace(allocations(14, 14, mode=Mode.CORE_MEM), isolated=False)
    node = served(with_gpu_pods(node, gpu_pod("a", big, card=0)), "a", 1, "x")
    assert allocated(with_gpu_pods(node, gpu_pod("b", small)), 2).cards == (("GPU-1", 2),)


def test_an_amount_without_a_waiting_container_is_rejected() -> None:
    node = with_gpu_pods(allocations(14), gpu_pod("a", 3))
    answer = unmatched(AllocateSnapshot(node), AllocateCall(4))
    assert "waits for 4 of aliyun.com/gpu-mem" in answer.text
    assert "default/a" in answer.text


def test_an_unconfirmed_allocation_ends_when_its_device_ids_are_reused() -> None:
    node = with_gpu_pods(
        allocations(14, 14), gpu_pod("a", 4, card=0, bound=1), gpu_pod("b", 4, card=1, bound=2)
    )
    lost = with_allocation(node, allocated(node, 4, "x"))
    again = with_allocation(lost, replace(allocated(node, 4, "x"), uid="b", cards=(("GPU-1", 4),)))
    assert set(again.by_container) == {("b", "main")}


def test_a_mistaken_repeated_call_leaves_the_earlier_allocation() -> None:
    """After the loss of a checkpoint, the call of a pod that nobody has seen was for another container."""
    node = with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=1, bound=1))
    node = join(served(node, "a", 4, "x"), ())
    seemed = with_allocation(node, allocated(node, 4, "y"))
    seen = with_gpu_pods(seemed, gpu_pod("unseen", 4, bound=2))
    both = join(seen, [ServedContainer("unseen", "main", "y", 4, ("GPU-1",))])
    assert {key: each.cards for key, each in both.by_container.items()} == {
        ("a", "main"): (("GPU-1", 4),),
        ("unseen", "main"): (("GPU-1", 4),),
    }


def test_the_rejection_of_a_call_that_may_be_for_several_names_them() -> None:
    node = with_gpu_pods(allocations(14), gpu_pod("a", 4), gpu_pod("b", 4))
    node = join(served(served(node, "a", 4, "x"), "b", 4, "y"), ())
    answer = unmatched(AllocateSnapshot(node), AllocateCall(4))
    assert answer == Rejected(
        "ambiguous",
        "the kubelet of node node-a has lost its checkpoint, so 4 of aliyun.com/gpu-mem may be for any of "
        "these pods: default/a, default/b; a controller replaces its pod, a bare pod must be created again",
    )
    assert not is_final(answer, terminating=False)
    two = gpu_pod("two", sound(demand_of([main(4), main(2, name="second")])))
    unequal = with_gpu_pods(allocations(14), gpu_pod("c", 4), two)
    unread = unmatched(AllocateSnapshot(unequal, readable=False), AllocateCall(4))
    assert "has a checkpoint that cannot be read, so 4 of" in unread.text
    assert "default/c, default/two" in unread.text


def test_mistaken_twins_are_swapped() -> None:
    node = with_gpu_pods(
        allocations(14, 14), gpu_pod("a", 4, card=0, bound=1), gpu_pod("b", 4, card=1, bound=2)
    )
    taken = with_allocation(node, allocated(node, 4, "x"))
    assert taken.by_container["a", "main"].cards == (("GPU-0", 4),)
    known = join(taken, [ServedContainer("b", "main", "x", 4)])
    assert set(known.by_container) == {("b", "main")}
    assert known.by_container["b", "main"].diverged
    assert known.by_container["b", "main"].pod == "default/b"
    other = allocated(known, 4, "y", frozenset({("b", "main")}))
    assert (other.uid, other.cards) == ("a", (("GPU-0", 4),))


def test_an_allocation_of_another_plugin_is_adopted() -> None:
    node = with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=0))
    known = join(node, [ServedContainer("a", "main", "x", 4, cards=("GPU-1",))])
    assert known.by_container["a", "main"].cards == (("GPU-1", 4),)
    assert known.by_container["a", "main"].diverged


def test_an_allocation_on_an_absent_gpu_is_not_moved_to_its_other_gpu() -> None:
    node = with_gpu_pods(allocations(14), gpu_pod("a", demand(8, cards=2), card=(0, 1)))
    known = join(node, [ServedContainer("a", "main", "x", 8, cards=("GPU-0", "GPU-1"))])
    assert known.by_container["a", "main"].cards == (("GPU-0", 4), ("GPU-1", 4))
    back = replace(known, cards=cards(14, 14))
    assert allocated_shares(back, "a") == ((0, (4, 0)), (1, (4, 0)))


def test_limit_files_are_adopted_with_an_allocation() -> None:
    node = with_gpu_pods(allocations(14, 14, mode=Mode.CGPU), gpu_pod("a", 4, card=0))
    entry = ServedContainer(
        "a", "main", "x", 4, cards=("GPU-1",), bound=IsolationMounts("0123456789abcdef", "00000000000000aa")
    )
    enforcement = join(node, [entry]).by_container["a", "main"].enforcement
    assert enforcement
    assert (enforcement.directory, enforcement.library) == ("00000000000000aa", "0123456789abcdef")
    assert parse(enforcement.limit)[0].units == 4


def test_a_limit_that_cannot_be_computed_again_allows_nothing() -> None:
    node = with_gpu_pods(allocations(14, mode=Mode.CGPU), gpu_pod("a", 4, card=0))
    odd = replace(node, cards=(replace(node.cards[0], mib=1 << 30),))
    entry = ServedContainer(
        "a", "main", "x", 4, cards=("GPU-0",), bound=IsolationMounts("0123456789abcdef", "00000000000000aa")
    )
    enforcement = join(odd, [entry]).by_container["a", "main"].enforcement
    assert enforcement
    assert enforcement.limit == ""


def test_an_allocation_with_unknown_gpus_is_not_adopted() -> None:
    node = with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=0))
    assert join(node, [ServedContainer("a", "main", "x", 4)]) is node


def test_an_allocation_that_is_no_equal_parts_of_its_gpus_is_not_adopted() -> None:
    """Equal parts would be fewer units than the kubelet gave."""
    node = with_gpu_pods(allocations(14, 14), gpu_pod("a", 5, card=0))
    assert join(node, [ServedContainer("a", "main", "x", 5, cards=("GPU-0", "GPU-1"))]) is node


def test_a_deleted_pod_keeps_its_gpu_while_it_has_processes() -> None:
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 12, card=0)), "a", 12, "x")
    gone = replace(node, gpu_pods={})
    leaving = retained(gone, frozenset({"a"}))
    assert isinstance(asked(with_gpu_pods(leaving, gpu_pod("b", 4)), 4, "y"), Rejected)
    free = retained(gone, frozenset())
    assert isinstance(asked(with_gpu_pods(free, gpu_pod("b", 4)), 4, "y"), Allocated)


@pytest.mark.parametrize("label", ["2", "x"])
def test_a_pod_keeps_its_share_when_its_number_of_gpus_is_edited(label: str) -> None:
    """Its init container passes the units on to the other one, so they are not counted twice."""
    asks = sound(demand_of([init(8), main(8)]))
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", asks, card=0)), "a", 8, "x", "init")
    node = with_allocation(node, allocated(node, 8, "x", frozenset({("a", "init")})))
    edited = gpu_pod("a", demand_of([init(8), main(8)], label), card=0)
    assert allocated_shares(with_gpu_pods(node, edited), "a") == ((0, (8, 0)),)


def test_a_pod_on_two_gpus_keeps_half_of_its_units_on_each_when_their_number_is_edited() -> None:
    asks = sound(demand_of([init(8), main(8)], "2"))
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", asks, card=(0, 1))), "a", 8, "x", "init")
    node = with_allocation(node, allocated(node, 8, "x", frozenset({("a", "init")})))
    edited = gpu_pod("a", demand_of([init(8), main(8)], "3"), card=(0, 1))
    assert allocated_shares(with_gpu_pods(node, edited), "a") == ((0, (4, 0)), (1, (4, 0)))


def test_a_pod_on_two_gpus_keeps_one_when_the_other_is_gone() -> None:
    node = served(
        with_gpu_pods(allocations(14, 14), gpu_pod("a", demand(24, cards=2), card=(0, 1))), "a", 24, "x"
    )
    left = with_gpu_pods(replace(node, cards=cards(14)), gpu_pod("b", 4))
    assert isinstance(asked(left, 4, "y"), Rejected)


def test_the_second_container_of_a_pod_on_two_gpus_goes_there_too() -> None:
    asks = sound(demand_of([init(8), main(8)], "2"))
    node = served(with_gpu_pods(allocations(4, 4), gpu_pod("a", asks, card=(0, 1))), "a", 8, "x", "init")
    assert allocated(node, 8, "x", frozenset({("a", "init")})).cards == (("GPU-0", 4), ("GPU-1", 4))


def test_a_deleted_pod_keeps_its_compute_while_it_has_processes() -> None:
    node = allocations(14, mode=Mode.MPS)
    node = served(with_gpu_pods(node, gpu_pod("a", sound(demand_of([main(1, 100)])), card=0)), "a", 1, "x")
    leaving = with_gpu_pods(replace(node, gpu_pods={}), gpu_pod("b", sound(demand_of([main(2, 50)]))))
    assert isinstance(asked(leaving, 2, "y"), Rejected)


def test_users_are_distinguished_by_the_extender_only() -> None:
    node = served(with_gpu_pods(allocations(14, mode=Mode.MPS), gpu_pod("a", 4, card=0)), "a", 4, "x")
    for user in (2000, None):
        other = with_gpu_pods(node, gpu_pod("b", demand(2, user=user)))
        assert allocated(other, 2, "y").cards == (("GPU-0", 2),)


def test_a_pod_that_diverges_after_indices_changed_is_marked() -> None:
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=1)), "a", 4, "x")
    assert marked(node) is node
    (_, second) = node.cards
    moved = marked(replace(node, cards=(replace(second, index=0),)))
    assert moved.by_container["a", "main"].diverged


def decided(node: Allocations, capabilities: Capabilities) -> Allocated | Rejected:
    """The decision on a call for 4 units at 255 ns."""
    found = match(AllocateSnapshot(node), AllocateCall(4))
    assert found
    return decide(node, found, ("x",), capabilities, 255)


def test_a_container_is_limited_by_the_library_that_the_node_has() -> None:
    node = with_gpu_pods(allocations(14, mode=Mode.CGPU), gpu_pod("a", 4))
    answer = decided(node, Capabilities(isolation=True, library="0123456789abcdef"))
    assert isinstance(answer, Allocated)
    assert answer.allocation.enforcement
    assert answer.allocation.enforcement.directory == "00000000000000ff"
    missing = decided(node, Capabilities(isolation=True, libraries_dir="/libraries"))
    assert isinstance(missing, Rejected)
    assert missing.reason == "no_library"


def of_mode(mode: Mode) -> GpuPod:
    """A pod of 4 units that fits the mode."""
    return gpu_pod("a", demand(4, core=10 if mode is Mode.CORE_MEM else 0))


@pytest.mark.parametrize("mode", [Mode.CGPU, Mode.CORE_MEM])
def test_an_agent_without_the_mounts_rejects_containers_that_it_cannot_limit(mode: Mode) -> None:
    node = with_gpu_pods(allocations(14, mode=mode), of_mode(mode))
    without = Capabilities(libraries_dir="/libraries", state_dir="/state")
    answer = decided(node, without)
    assert isinstance(answer, Rejected)
    assert answer.reason == "no_isolation_mounts"
    for part in ("default/a", f"sharing mode {mode}", "/libraries and /state", "cgpu.disable.isolation=true"):
        assert part in answer.text
    assert is_final(answer, terminating=True)


@pytest.mark.parametrize("mode", [Mode.CGPU, Mode.CORE_MEM, Mode.MPS])
def test_a_container_is_rejected_if_no_program_could_load_the_library(mode: Mode) -> None:
    node = with_gpu_pods(allocations(14, mode=mode), of_mode(mode))
    library = "0123456789abcdef"
    answer = decided(
        node, Capabilities(isolation=True, noexec="/var", library=library, libraries_dir="/var/lib/gpushare")
    )
    assert isinstance(answer, Rejected)
    assert answer.reason == "noexec"
    for part in ("default/a", "/var/lib/gpushare there is on /var,", "noexec", "isolation.folder"):
        assert part in answer.text
    assert is_final(answer, terminating=True)


def test_a_node_without_limits_needs_no_folder_for_the_library() -> None:
    node = with_gpu_pods(allocations(14, mode=Mode.SHARE), of_mode(Mode.SHARE))
    assert isinstance(decided(node, Capabilities(isolation=True, noexec="/var")), Allocated)


@pytest.mark.parametrize(
    ("mode", "isolated"), [(Mode.SHARE, True), (Mode.MPS, True), (Mode.CGPU, False), (Mode.CORE_MEM, False)]
)
def test_an_agent_without_the_mounts_serves_where_the_library_is_not_the_only_limit(
    mode: Mode,
    isolated: bool,  # noqa: FBT001
) -> None:
    node = replace(with_gpu_pods(allocations(14, mode=mode), of_mode(mode)), isolated=isolated)
    answer = decided(node, Capabilities())
    assert isinstance(answer, Allocated)
    assert answer.allocation.enforcement is None


def test_a_rejection_for_lack_of_units_is_final_unless_pods_are_terminating() -> None:
    full = rejected(with_gpu_pods(allocations(2), gpu_pod("a", 4, card=0)), 4)
    assert is_final(full, terminating=False)
    assert not is_final(full, terminating=True)


def test_an_unmatched_call_is_not_final() -> None:
    assert not is_final(unmatched(AllocateSnapshot(allocations(14)), AllocateCall(4)), terminating=False)


def test_an_allocation_is_final() -> None:
    decision = asked(with_gpu_pods(allocations(14), gpu_pod("a", 4, card=0)), 4, "x")
    assert isinstance(decision, Allocated)
    assert is_final(decision, terminating=True)
