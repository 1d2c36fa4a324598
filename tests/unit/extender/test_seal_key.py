"""The key of the seals: read from its Secret, or written by the first replica."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gpushare.extender.cluster import ClusterState
from gpushare.extender.freshness import SyncStatus
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.seal import Sealer
from gpushare.extender.seal_key import follow_key, load_sealer
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.objects import Pod
from gpushare.ports import StoredKey
from tests.support.builders.scheduling import free, node, pod
from tests.support.steps import finished
from tests.support.virtual_time import skip_waits
from tests.unit.extender.fakes import FakeApi, refused, silence

STORED = StoredKey(b"k" * 32, "2025-01-01T00:00:00Z", "7")
EMPTY = StoredKey(b"", "2025-01-01T00:00:00Z", "1")
LATER = "2027-01-01T00:00:00Z"


def new_status() -> SyncStatus:
    return SyncStatus(ExtenderMetrics())


async def loaded(api: FakeApi) -> Sealer:
    return await load_sealer(api, new_status())


@asynccontextmanager
async def followed(
    api: FakeApi, cluster: ClusterState, status: SyncStatus | None = None
) -> AsyncIterator[None]:
    task = asyncio.create_task(follow_key(api, status or new_status(), cluster, period_s=0.001))
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not met():
            await asyncio.sleep(0.001)


def bound(sealer: Sealer, card: int = 1, uid: str = "a") -> Pod:
    plain = replace(pod(uid, 4, at="n", card=card), created=LATER)
    assert plain.claim is not None
    return replace(plain, seal=sealer.seal(uid, "n", plain.claim))


def cluster_with(sealer: Sealer) -> ClusterState:
    cluster = ClusterState()
    cluster.sealer = sealer
    cluster.change_nodes([Upserted("n", node("n", 14, 14))])
    return cluster


async def test_a_stored_key_is_used_with_the_time_when_it_was_written() -> None:
    assert await loaded(FakeApi(key=STORED)) == Sealer(STORED.key, STORED.written)


async def test_the_first_replica_fills_an_empty_secret_and_the_next_one_reads_it() -> None:
    api = FakeApi(key=EMPTY)
    made = await loaded(api)
    assert len(made.key) == 32
    assert await loaded(api) == made


async def test_a_replica_that_is_late_to_fill_the_secret_reads_the_key_of_the_other() -> None:
    skip_waits(asyncio.get_running_loop())
    api = FakeApi(key=STORED, key_errors=deque([None, refused(409)]))
    api.key = EMPTY
    load = asyncio.create_task(loaded(api))
    await until(lambda: not api.key_errors)
    api.key = STORED
    assert await load == Sealer(STORED.key, STORED.written)


@pytest.mark.parametrize(
    ("key", "errors"),
    [
        (STORED, [refused(403)]),
        (EMPTY, [None, refused(403)]),
        (EMPTY, [None, refused(422, "field is immutable when `immutable` is set")]),
        (None, []),
    ],
    ids=["no-get", "no-patch", "immutable-without-a-key", "no-secret"],
)
async def test_without_a_usable_secret_nothing_is_sealed_and_readyz_has_the_reason(
    key: StoredKey | None, errors: list[Exception]
) -> None:
    status = new_status()
    with capture_logs() as logs:
        sealer = await load_sealer(FakeApi(key=key, key_errors=deque(errors)), status)  # type: ignore[arg-type]
    assert sealer == Sealer()
    assert [(entry["event"], entry["right"]) for entry in logs] == [("degraded_mode", "secrets")]
    assert list(status.notices()) == [f"degraded: {logs[0]['effect']}: {logs[0]['reason']}"]


async def test_while_the_key_cannot_be_read_readyz_has_the_reason() -> None:
    status = new_status()
    load = asyncio.create_task(load_sealer(FakeApi(key=STORED, key_errors=deque([silence()])), status))
    await until(lambda: status.missing() is not None and str(silence()) in str(status.missing()))
    assert str(status.missing()).endswith(f"has not listed nodes and pods yet: {silence()}")
    load.cancel()


async def test_without_a_key_another_reason_is_reported_too() -> None:
    api, cluster, status = FakeApi(key=None), ClusterState(), new_status()
    cluster.sealer = await load_sealer(api, status)
    api.key_errors.append(refused(403, "User x cannot get secrets"))
    with capture_logs() as logs:
        async with followed(api, cluster, status):
            await until(lambda: bool(logs))
    assert (logs[0]["event"], logs[0]["reason"]) == ("degraded_mode", "User x cannot get secrets")


async def test_a_secret_that_appears_ends_the_degraded_mode() -> None:
    api, cluster, status = FakeApi(key=None), ClusterState(), new_status()
    cluster.sealer = await load_sealer(api, status)
    async with followed(api, cluster, status):
        api.key = STORED
        await until(lambda: cluster.sealer == Sealer(STORED.key, STORED.written))
    assert not list(status.notices())


async def test_a_secret_that_was_created_again_gets_the_known_key() -> None:
    cluster = cluster_with(Sealer(STORED.key, STORED.written))
    api = FakeApi(key=None)
    async with followed(api, cluster):
        api.key = EMPTY
        await until(lambda: api.key is not None and api.key.key == STORED.key)
        await until(lambda: cluster.sealer == Sealer(STORED.key, "2026-01-01T00:00:00Z"))


async def test_a_lost_secret_is_logged_once_and_the_key_stays_in_use() -> None:
    cluster = cluster_with(Sealer(STORED.key, STORED.written))
    with capture_logs() as logs:
        async with followed(FakeApi(key=None), cluster):
            await until(lambda: bool(logs))
            await asyncio.sleep(0.01)
    assert [entry["event"] for entry in logs] == ["seal_key_not_read"]
    assert cluster.sealer.key == STORED.key


async def test_a_pod_sealed_with_the_key_of_another_replica_counts_on_its_gpu_once_the_key_is_read() -> None:
    cluster = cluster_with(Sealer(b"x" * 32, STORED.written))
    cluster.see_pod(bound(Sealer(STORED.key)))
    assert free(cluster.ledger, "n") == [10, 10]
    async with followed(FakeApi(key=STORED), cluster):
        await until(lambda: free(cluster.ledger, "n") == [14, 10])


def test_another_key_changes_no_known_gpu() -> None:
    cluster = cluster_with(Sealer(STORED.key, STORED.written))
    cluster.see_pod(bound(cluster.sealer))
    cluster.see_pod(replace(bound(cluster.sealer), claim=pod("a", 4, at="n", card=0).claim))
    finished(cluster.change_sealer_steps(Sealer(b"x" * 32, "2028-01-01T00:00:00Z")))
    assert free(cluster.ledger, "n") == [14, 10]


def test_a_pod_that_is_gone_does_not_return_with_another_key() -> None:
    cluster = cluster_with(Sealer(b"x" * 32, STORED.written))
    cluster.change_pods([Upserted("a", bound(Sealer(STORED.key))), Deleted("a")])
    finished(cluster.change_sealer_steps(Sealer(STORED.key, STORED.written)))
    assert free(cluster.ledger, "n") == [14, 14]


def test_pods_may_change_and_go_while_they_are_checked_with_another_key() -> None:
    """They are all pods of a cluster, so the watch continues between them."""
    cluster = cluster_with(Sealer(b"x" * 32, STORED.written))
    sealer = Sealer(STORED.key, STORED.written)
    cluster.change_pods(Upserted(uid, bound(sealer, uid=uid)) for uid in "bcd")
    assert free(cluster.ledger, "n") == [2, 2]
    steps = cluster.change_sealer_steps(sealer)
    next(steps)
    changed = replace(bound(sealer, uid="c"), labels=(("changed", "yes"),))
    cluster.change_pods([Upserted("c", changed), Deleted("d")])
    finished(steps)
    assert set(cluster.pods) == {"b", "c"}
    assert free(cluster.ledger, "n") == [14, 6]
