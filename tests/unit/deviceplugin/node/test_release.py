"""Release of terminated pods, whose cgroups are checked in a thread."""

import asyncio
import threading
import time
from dataclasses import replace

from structlog.testing import capture_logs

from gpushare.deviceplugin.core.allocations import Allocation
from gpushare.deviceplugin.node.release import GpuReleaser, PodsWithCgroup
from gpushare.deviceplugin.node.state import KubeletAllocations, NodeState
from gpushare.errors import KubeletError
from gpushare.model.changes import Deleted, Upserted
from tests.support.builders.gpu_pods import NODE, gpu_pod


def left_behind(*uids: str) -> NodeState:
    """A complete pod list without these pods, which have allocations."""
    allocations = [
        Allocation(uid, "main", f"default/{uid}", (("GPU-0", 1),), uid, confirmed=True) for uid in uids
    ]
    node_state = NodeState(NODE, allocations)
    node_state.apply_checkpoint(KubeletAllocations())
    node_state.mark_synced()
    return node_state


def with_allocations(node_state: NodeState) -> set[str]:
    return set(node_state.allocations.by_pod)


async def test_only_pods_without_a_cgroup_are_released() -> None:
    node_state = left_behind("a", "b")
    releaser = GpuReleaser(node_state, lambda uids: uids & {"b"})
    assert await releaser.release(node_state.snapshot().terminated) == {"b"}
    assert with_allocations(node_state) == {"b"}


def just_started(uid: str) -> NodeState:
    """A pod that was deleted right after its allocation."""
    allocation = Allocation(uid, "main", f"default/{uid}", (("GPU-0", 1),), "x", at_ns=time.time_ns())
    node_state = NodeState(NODE, [allocation])
    node_state.apply_checkpoint(KubeletAllocations())
    node_state.mark_synced()
    return node_state


async def test_a_new_allocation_may_still_be_without_a_cgroup() -> None:
    node_state = just_started("a")
    for start_grace_s, terminating in ((3600, {"a"}), (0, set())):
        releaser = GpuReleaser(node_state, lambda _: frozenset(), start_grace_s=start_grace_s)
        assert await releaser.release(node_state.snapshot().terminated) == terminating


async def test_the_grace_period_counts_from_the_start_of_the_check() -> None:
    node_state = just_started("a")
    now_ns = time.time_ns()

    def slow_check(_: frozenset[str]) -> frozenset[str]:
        nonlocal now_ns
        now_ns += 120 * 10**9
        return frozenset()

    releaser = GpuReleaser(node_state, slow_check, start_grace_s=60, clock_ns=lambda: now_ns)
    assert await releaser.release(node_state.snapshot().terminated) == {"a"}
    assert await releaser.release(node_state.snapshot().terminated) == frozenset()


async def test_a_pod_with_a_removed_cgroup_is_released_within_the_grace_period() -> None:
    node_state, groups = just_started("a"), {"a"}
    releaser = GpuReleaser(node_state, lambda uids: uids & groups, start_grace_s=3600)
    assert await releaser.release(node_state.snapshot().terminated) == {"a"}
    groups.clear()
    assert await releaser.release(node_state.snapshot().terminated) == frozenset()
    assert with_allocations(node_state) == set()


async def test_a_static_pod_that_is_put_back_and_removed_again_has_the_grace_period() -> None:
    node_state, groups = just_started("a"), {"a"}
    allocation = node_state.allocations.by_container["a", "main"]
    releaser = GpuReleaser(node_state, lambda uids: uids & groups, start_grace_s=3600)
    await releaser.release(node_state.snapshot().terminated)
    groups.clear()
    await releaser.release(node_state.snapshot().terminated)
    node_state.apply_gpu_pods([Upserted("a", gpu_pod("a"))])
    node_state.add_allocation(allocation)
    await releaser.release(node_state.snapshot().terminated)
    node_state.apply_gpu_pods([Deleted("a")])
    assert await releaser.release(node_state.snapshot().terminated) == {"a"}


async def test_without_visible_cgroups_a_deleted_pod_is_released() -> None:
    node_state = left_behind("a")
    assert (
        await GpuReleaser(node_state, lambda _: None).release(node_state.snapshot().terminated) == frozenset()
    )
    assert with_allocations(node_state) == set()


async def test_an_agent_that_starts_before_the_kubelet_waits_for_cgroups_once_they_are_visible() -> None:
    node_state, groups, seen = left_behind(), list[frozenset[str] | None]([None]), list[bool]()
    releaser = GpuReleaser(node_state, lambda _: groups[-1], on_visible=seen.append)
    await releaser.release(node_state.snapshot().terminated)
    groups.append(frozenset({"a"}))
    node_state.add_allocation(Allocation("a", "main", "default/a", (("GPU-0", 1),), "x", confirmed=True))
    assert await releaser.release(node_state.snapshot().terminated) == {"a"}
    assert with_allocations(node_state) == {"a"}
    assert seen == [True]


async def test_a_pod_whose_cgroup_was_seen_is_kept_while_the_whole_tree_is_not_visible() -> None:
    node_state, groups = left_behind("a", "b"), list[frozenset[str] | None]([frozenset({"a"})])
    releaser = GpuReleaser(node_state, lambda _: groups[-1])
    await releaser.release(node_state.snapshot().terminated)
    groups.append(None)
    assert await releaser.release(node_state.snapshot().terminated) == {"a"}
    groups.append(frozenset())
    assert await releaser.release(node_state.snapshot().terminated) == frozenset()


async def test_cgroups_that_cannot_be_read_release_nothing_and_are_reported_once() -> None:
    def denied(_: frozenset[str]) -> frozenset[str]:
        raise KubeletError("cannot read /host/sys/fs/cgroup/kubepods: Permission denied")

    node_state = left_behind("a")
    releaser = GpuReleaser(node_state, denied)
    with capture_logs() as logs:
        for _ in range(2):
            assert await releaser.release(node_state.snapshot().terminated) == {"a"}
    assert [(entry["event"], entry["reason"]) for entry in logs] == [
        ("cgroup_check_failed", "cannot read /host/sys/fs/cgroup/kubepods: Permission denied")
    ]
    assert with_allocations(node_state) == {"a"}


async def test_no_pod_is_released_before_the_pod_list_is_complete() -> None:
    allocation = Allocation("a", "main", "default/a", (("GPU-0", 1),), "x")
    node_state = NodeState(NODE, [allocation])
    node_state.apply_checkpoint(KubeletAllocations())
    await GpuReleaser(node_state, lambda _: None).release(node_state.snapshot().terminated)
    assert with_allocations(node_state) == {"a"}


def stuck(release: threading.Event, threads: set[int]) -> PodsWithCgroup:
    def check(uids: frozenset[str]) -> frozenset[str]:
        threads.add(threading.get_ident())
        release.wait(30)
        return frozenset() if release.is_set() else uids

    return check


async def test_a_hanging_check_releases_nothing_and_uses_one_thread() -> None:
    release, threads = threading.Event(), set[int]()
    node_state = left_behind("a")
    releaser = GpuReleaser(node_state, stuck(release, threads), timeout_s=0.01)
    with capture_logs() as logs:
        for _ in range(5):
            assert await releaser.release(node_state.snapshot().terminated) == {"a"}
    assert [entry["event"] for entry in logs] == ["cgroup_check_failed"]
    assert with_allocations(node_state) == {"a"}
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    release.set()
    releaser = GpuReleaser(node_state, stuck(release, threads))
    assert await releaser.release(node_state.snapshot().terminated) == frozenset()
    assert with_allocations(node_state) == set()


async def test_a_pod_deleted_during_a_check_is_released_by_the_next_one() -> None:
    node_state = left_behind("a")
    newcomer = gpu_pod("b", 1)
    node_state.apply_gpu_pods([Upserted("b", newcomer)])
    node_state.add_allocation(
        replace(Allocation("b", "main", "default/b", (("GPU-0", 1),), "y"), confirmed=True)
    )
    begun, release = threading.Event(), threading.Event()

    def check(uids: frozenset[str]) -> frozenset[str]:
        assert uids == {"a"}
        begun.set()
        release.wait(30)
        return frozenset()

    settling = asyncio.ensure_future(GpuReleaser(node_state, check).release(node_state.snapshot().terminated))
    await asyncio.to_thread(begun.wait, 30)
    node_state.apply_gpu_pods([Deleted("b")])
    release.set()
    await settling
    assert with_allocations(node_state) == {"b"}
