"""Pods that are gone and whose processes run on, looked for in a thread."""

import asyncio
import threading
import time
from dataclasses import replace

from structlog.testing import capture_logs

from gpushare.adapters.kube.watch import Deleted, Upserted
from gpushare.deviceplugin.core.allocations import Allocation
from gpushare.deviceplugin.node.release import CardReleaser, PodsWithCgroup
from gpushare.deviceplugin.node.state import KubeletAllocations, NodeState
from tests.support.gpu_pods import NODE, gpu_pod


def left_behind(*uids: str) -> NodeState:
    """All pods are known, and these are not among them."""
    grants = [Allocation(uid, "main", f"default/{uid}", (("GPU-0", 1),), uid, sure=True) for uid in uids]
    node_state = NodeState(NODE, grants, KubeletAllocations)
    node_state.mark_synced()
    return node_state


def holders(node_state: NodeState) -> set[str]:
    return set(node_state.allocations.by_pod)


async def test_cards_come_back_from_pods_without_processes_and_from_no_other() -> None:
    node_state = left_behind("a", "b")
    releaser = CardReleaser(node_state, lambda uids: uids & {"b"})
    assert await releaser.release_terminated() == {"b"}
    assert holders(node_state) == {"b"}


def just_started(uid: str) -> NodeState:
    """A pod that is gone a moment after it was given a card."""
    grant = Allocation(uid, "main", f"default/{uid}", (("GPU-0", 1),), "x", at_ns=time.time_ns())
    node_state = NodeState(NODE, [grant], KubeletAllocations)
    node_state.mark_synced()
    return node_state


async def test_a_pod_that_was_given_a_card_a_moment_ago_need_not_have_a_group_yet() -> None:
    node_state = just_started("a")
    assert await CardReleaser(node_state, lambda _: frozenset(), start_grace_s=3600).release_terminated() == {
        "a"
    }
    assert (
        await CardReleaser(node_state, lambda _: frozenset(), start_grace_s=0).release_terminated()
        == frozenset()
    )


async def test_what_is_a_moment_ago_counts_from_when_the_look_began() -> None:
    node_state, moment_s = just_started("a"), 0.2

    def look(_: frozenset[str]) -> frozenset[str]:
        threading.Event().wait(2 * moment_s)
        return frozenset()

    assert await CardReleaser(node_state, look, start_grace_s=moment_s).release_terminated() == {"a"}


async def test_a_group_that_was_there_and_is_not_is_gone_for_good_however_young() -> None:
    node_state, groups = just_started("a"), {"a"}
    releaser = CardReleaser(node_state, lambda uids: uids & groups, start_grace_s=3600)
    assert await releaser.release_terminated() == {"a"}
    groups.clear()
    assert await releaser.release_terminated() == frozenset()
    assert holders(node_state) == set()


async def test_where_processes_cannot_be_seen_the_apis_word_is_enough() -> None:
    node_state = left_behind("a")
    assert await CardReleaser(node_state, None).release_terminated() == frozenset()
    assert holders(node_state) == set()


async def test_nobody_is_let_go_before_all_pods_are_known() -> None:
    grant = Allocation("a", "main", "default/a", (("GPU-0", 1),), "x")
    node_state = NodeState(NODE, [grant], KubeletAllocations)
    await CardReleaser(node_state, None).release_terminated()
    assert holders(node_state) == {"a"}


def stuck(release: threading.Event, threads: set[int]) -> PodsWithCgroup:
    def look(uids: frozenset[str]) -> frozenset[str]:
        threads.add(threading.get_ident())
        release.wait(30)
        return frozenset() if release.is_set() else uids

    return look


async def test_a_look_that_hangs_holds_up_nobody_frees_no_card_and_takes_one_thread() -> None:
    release, threads = threading.Event(), set[int]()
    node_state = left_behind("a")
    releaser = CardReleaser(node_state, stuck(release, threads), timeout_s=0.01)
    with capture_logs() as logs:
        for _ in range(5):
            assert await releaser.release_terminated() == {"a"}
    assert [entry["event"] for entry in logs] == ["cgroup_check_timed_out"]
    assert holders(node_state) == {"a"}
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    release.set()
    releaser = CardReleaser(node_state, stuck(release, threads))
    assert await releaser.release_terminated() == frozenset()
    assert holders(node_state) == set()


async def test_a_pod_that_is_gone_since_the_look_began_is_kept_for_the_next_one() -> None:
    node_state = left_behind("a")
    newcomer = gpu_pod("b", 1)
    node_state.update_pods([Upserted("b", newcomer)])
    node_state.add_allocation(replace(Allocation("b", "main", "default/b", (("GPU-0", 1),), "y"), sure=True))
    begun, release = threading.Event(), threading.Event()

    def look(uids: frozenset[str]) -> frozenset[str]:
        assert uids == {"a"}
        begun.set()
        release.wait(30)
        return frozenset()

    settling = asyncio.ensure_future(CardReleaser(node_state, look).release_terminated())
    await asyncio.to_thread(begun.wait, 30)
    node_state.update_pods([Deleted("b")])
    release.set()
    await settling
    assert holders(node_state) == {"b"}
