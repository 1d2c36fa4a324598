"""Pods that are gone and whose processes run on, looked for in a thread."""

import asyncio
import threading
import time
from dataclasses import replace

from structlog.testing import capture_logs

from gpushare.deviceplugin.core.allocations import Allocation
from gpushare.deviceplugin.node.release import CardReleaser, Kept
from gpushare.deviceplugin.node.state import KubeletRecord, NodeState
from gpushare.model.changes import Deleted, Upserted
from tests.support.gpu_pods import NODE, gpu_pod


def left_behind(*uids: str) -> NodeState:
    """All pods are known, and these are not among them."""
    grants = [Allocation(uid, "main", f"default/{uid}", (("GPU-0", 1),), uid, confirmed=True) for uid in uids]
    node_state = NodeState(NODE, grants, KubeletRecord)
    node_state.settle()
    return node_state


def holders(node_state: NodeState) -> set[str]:
    return set(node_state.allocations.by_pod)


async def test_cards_come_back_from_pods_without_processes_and_from_no_other() -> None:
    node_state = left_behind("a", "b")
    departures = CardReleaser(node_state, lambda uids: uids & {"b"})
    assert await departures.settle() == {"b"}
    assert holders(node_state) == {"b"}


def just_started(uid: str) -> NodeState:
    """A pod that is gone a moment after it was given a card."""
    grant = Allocation(uid, "main", f"default/{uid}", (("GPU-0", 1),), "x", at_ns=time.time_ns())
    node_state = NodeState(NODE, [grant], KubeletRecord)
    node_state.settle()
    return node_state


async def test_a_pod_that_was_given_a_card_a_moment_ago_need_not_have_a_group_yet() -> None:
    node_state = just_started("a")
    assert await CardReleaser(node_state, lambda _: frozenset(), beginning_s=3600).settle() == {"a"}
    assert await CardReleaser(node_state, lambda _: frozenset(), beginning_s=0).settle() == frozenset()


async def test_what_is_a_moment_ago_counts_from_when_the_look_began() -> None:
    node_state, moment_s = just_started("a"), 0.2

    def look(_: frozenset[str]) -> frozenset[str]:
        threading.Event().wait(2 * moment_s)
        return frozenset()

    assert await CardReleaser(node_state, look, beginning_s=moment_s).settle() == {"a"}


async def test_a_group_that_was_there_and_is_not_is_gone_for_good_however_young() -> None:
    node_state, groups = just_started("a"), {"a"}
    departures = CardReleaser(node_state, lambda uids: uids & groups, beginning_s=3600)
    assert await departures.settle() == {"a"}
    groups.clear()
    assert await departures.settle() == frozenset()
    assert holders(node_state) == set()


async def test_where_processes_cannot_be_seen_the_apis_word_is_enough() -> None:
    node_state = left_behind("a")
    assert await CardReleaser(node_state, None).settle() == frozenset()
    assert holders(node_state) == set()


async def test_nobody_is_let_go_before_all_pods_are_known() -> None:
    grant = Allocation("a", "main", "default/a", (("GPU-0", 1),), "x")
    node_state = NodeState(NODE, [grant], KubeletRecord)
    await CardReleaser(node_state, None).settle()
    assert holders(node_state) == {"a"}


def stuck(release: threading.Event, threads: set[int]) -> Kept:
    def look(uids: frozenset[str]) -> frozenset[str]:
        threads.add(threading.get_ident())
        release.wait(30)
        return frozenset() if release.is_set() else uids

    return look


async def test_a_look_that_hangs_holds_up_nobody_frees_no_card_and_takes_one_thread() -> None:
    release, threads = threading.Event(), set[int]()
    node_state = left_behind("a")
    departures = CardReleaser(node_state, stuck(release, threads), look_s=0.01)
    with capture_logs() as logs:
        for _ in range(5):
            assert await departures.settle() == {"a"}
    assert [entry["event"] for entry in logs] == ["control_groups_not_seen"]
    assert holders(node_state) == {"a"}
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    release.set()
    departures = CardReleaser(node_state, stuck(release, threads))
    assert await departures.settle() == frozenset()
    assert holders(node_state) == set()


async def test_a_pod_that_is_gone_since_the_look_began_is_kept_for_the_next_one() -> None:
    node_state = left_behind("a")
    newcomer = gpu_pod("b", 1)
    node_state.take_pods([Upserted("b", newcomer)])
    node_state.take_grant(replace(Allocation("b", "main", "default/b", (("GPU-0", 1),), "y"), confirmed=True))
    begun, release = threading.Event(), threading.Event()

    def look(uids: frozenset[str]) -> frozenset[str]:
        assert uids == {"a"}
        begun.set()
        release.wait(30)
        return frozenset()

    settling = asyncio.ensure_future(CardReleaser(node_state, look).settle())
    await asyncio.to_thread(begun.wait, 30)
    node_state.take_pods([Deleted("b")])
    release.set()
    await settling
    assert holders(node_state) == {"b"}
