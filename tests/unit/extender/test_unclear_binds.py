"""Binds of unknown outcome: when their units are released, and when not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from gpushare.extender.cluster import ClusterState
from gpushare.extender.unclear_binds import UnclearBinds
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.objects import Pod
from gpushare.scheduling.ledger import EMPTY_LEDGER
from tests.support.builders.scheduling import free, node, pod, reserved, seen
from tests.support.waiting import until
from tests.unit.extender.fakes import FakeApi, silence

LONG_S = 60.0
SHORT_S = 0.05
POD = pod("a", 4)
BOUND = pod("a", 4, at="n", card=0)


@dataclass
class Kept:
    """One unclear bind: pod ``a`` reserves 4 of 14 units on node ``n``."""

    api: FakeApi
    cluster: ClusterState
    unclear: UnclearBinds

    @property
    def free(self) -> list[int]:
        return free(self.cluster.ledger, "n")

    def show(self, shown: Pod) -> None:
        self.cluster.change_pods([Upserted(shown.uid, shown)])

    async def past_deadline(self) -> None:
        await until(lambda: self.unclear.remaining_s("a") == 0)


@asynccontextmanager
async def kept(*, api_request_s: float = LONG_S) -> AsyncIterator[Kept]:
    api, cluster = FakeApi(), ClusterState()
    cluster.ledger = reserved(seen(EMPTY_LEDGER, node("n", 14)), POD, "n")
    cluster.pods["a"] = POD
    api.has(POD)
    async with asyncio.TaskGroup() as tasks:
        unclear = UnclearBinds(cluster, api, tasks=tasks, api_request_s=api_request_s)
        unclear.track(POD)
        await asyncio.sleep(0)
        yield Kept(api, cluster, unclear)
        unclear.cancel()


async def test_the_watch_shows_it_bound_and_it_is_settled() -> None:
    async with kept() as k:
        k.show(BOUND)
        await until(lambda: not k.unclear)
        assert k.free == [10]
        assert k.api.reads == 0


async def test_the_watch_shows_it_gone_and_its_units_are_free() -> None:
    async with kept() as k:
        k.cluster.change_pods([Deleted("a")])
        await until(lambda: not k.unclear)
        assert k.free == [14]


async def test_a_watch_event_of_an_unbound_pod_settles_nothing() -> None:
    async with kept() as k:
        k.show(replace(POD, unschedulable="0/1 nodes"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert "a" in k.unclear
        k.show(BOUND)
        await until(lambda: not k.unclear)


async def test_before_the_deadline_an_unbound_pod_keeps_its_units() -> None:
    async with kept() as k:
        await k.unclear.check(POD)
        assert k.free == [10]
        assert "a" in k.unclear


async def test_past_the_deadline_a_quorum_read_that_shows_it_unbound_releases_its_units() -> None:
    async with kept(api_request_s=SHORT_S) as k:
        await k.past_deadline()
        assert k.free == [10]
        await k.unclear.check(POD)
        assert k.free == [14]
        assert not k.unclear


async def test_a_pod_that_the_watch_shows_gone_during_the_read_of_its_bind_is_not_counted_again() -> None:
    async with kept() as k:
        k.api.has(BOUND)

        def gone() -> None:
            k.api.pods.clear()
            k.cluster.change_pods([Deleted("a")])

        k.api.during_reads.append(gone)
        await k.unclear.check(POD)
        assert k.free == [14]
        assert not k.cluster.pods


async def test_a_pod_that_changes_during_the_read_of_its_bind_is_read_again() -> None:
    async with kept() as k:
        k.api.has(BOUND)
        k.api.during_reads.append(lambda: k.show(replace(POD, unschedulable="0/1 nodes")))
        await k.unclear.check(POD)
        assert k.free == [10]
        assert not k.unclear
        assert k.api.reads == 2


async def test_past_the_deadline_a_read_that_fails_releases_nothing() -> None:
    async with kept(api_request_s=SHORT_S) as k:
        await k.past_deadline()
        k.api.read_error = silence()
        with pytest.raises(Exception, match="no answer"):
            await k.unclear.check(POD)
        assert k.free == [10]
        assert "a" in k.unclear


async def test_a_deadline_does_not_release_while_another_post_is_under_way() -> None:
    async with kept(api_request_s=SHORT_S) as k:
        await k.past_deadline()
        k.unclear.extend("a")
        await k.unclear.check(POD)
        assert k.free == [10]
        assert "a" in k.unclear


async def test_a_post_of_a_pod_that_is_not_unclear_makes_it_none() -> None:
    async with kept() as k:
        k.unclear.extend("b")
        assert "b" not in k.unclear
        assert k.unclear.remaining_s("b") == 0


@pytest.mark.parametrize("found", [None, pod("new", 4, name="a")])
async def test_a_pod_that_is_gone_from_etcd_is_dropped_at_once(found: Pod | None) -> None:
    async with kept() as k:
        k.api.pods.clear()
        if found:
            k.api.has(found)
        await k.unclear.check(POD)
        assert k.free == [14]
        assert not k.unclear
        assert "a" not in k.cluster.pods


async def test_a_pod_that_etcd_shows_bound_is_taken_in_before_the_watch_shows_it() -> None:
    async with kept() as k:
        k.api.has(BOUND)
        await k.unclear.check(POD)
        assert not k.unclear
        reserved = k.cluster.ledger.reservation("a")
        assert reserved is not None
        assert reserved[1].confirmed
        assert k.free == [10]


async def test_a_rejection_of_the_only_post_releases_an_unbound_pod() -> None:
    async with kept() as k:
        k.unclear.resolve("a")
        await k.unclear.check(POD, refused=True)
        assert k.free == [14]


async def test_a_rejection_does_not_release_units_of_an_earlier_post() -> None:
    async with kept() as k:
        await k.unclear.check(POD, refused=True)
        assert k.free == [10]


async def test_without_a_rejection_or_a_deadline_a_check_releases_nothing() -> None:
    """The pod's POST may be under way right now."""
    async with kept() as k:
        k.unclear.resolve("a")
        await k.unclear.check(POD)
        assert k.free == [10]


async def test_keeping_a_bind_twice_counts_it_once() -> None:
    async with kept() as k:
        k.unclear.track(POD)
        assert len(k.unclear) == 1
