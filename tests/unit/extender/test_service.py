"""The service without its neighbours: what it answers from the ledger."""

import asyncio
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from gpushare.contract import LABEL_CARDS_PER_POD, RESOURCE_MEM
from gpushare.errors import ApiError
from gpushare.extender.cluster import ClusterState
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.replay import ReplayScores
from gpushare.extender.service import SchedulerService
from gpushare.extender.unclear_binds import UnclearBinds
from gpushare.model.changes import Upserted
from gpushare.model.objects import Pod
from gpushare.monitoring import catalogue
from gpushare.runtime.fairness import TimeSlices
from gpushare.scheduling.advice.inspection import inspect
from tests.support.builders.scheduling import node, pod
from tests.unit.extender.fakes import FakeApi


def on_gpus(units: int, cards: int) -> dict[str, Any]:
    """A pending pod as the API writes it."""
    container = {"name": "main", "resources": {"limits": {RESOURCE_MEM: units}}}
    labels = {LABEL_CARDS_PER_POD: str(cards)}
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "p", "labels": labels},
        "spec": {"containers": [container]},
    }


def service(
    cluster: ClusterState,
    metrics: ExtenderMetrics | None = None,
    unclear: UnclearBinds | None = None,
    replay: ReplayScores | None = None,
) -> SchedulerService:
    absent = cast("Any", None)
    return SchedulerService(
        cluster,
        binder=cast("Any", SimpleNamespace(unclear=unclear)),
        leadership=absent,
        peers=absent,
        metrics=metrics or ExtenderMetrics(),
        missing=lambda: None,
        replay=replay,
    )


async def test_requests_for_all_nodes_at_the_same_time_share_one_document() -> None:
    served = service(ClusterState())
    first, second = await asyncio.gather(served.inspect_all(), served.inspect_all())
    assert first is second
    assert await served.inspect_all() is not first


async def test_all_nodes_are_inspected_as_one_document() -> None:
    cluster = ClusterState()
    assert msgspec.json.decode(await service(cluster).inspect_all()) == {"nodes": []}
    cluster.change_nodes([Upserted(name, node(name, 14, 14)) for name in "ba"])
    cluster.see_pod(pod("p", 4, at="a", card=1))
    assert msgspec.json.decode(await service(cluster).inspect_all()) == inspect(cluster.ledger)


def test_of_many_requests_that_are_refused_some_are_logged_and_all_are_counted() -> None:
    metrics = ExtenderMetrics()
    with capture_logs() as logs:
        served = service(ClusterState(), metrics)
        for _ in range(1000):
            served.answer("filter", b"{")
    assert 100 <= len(logs) < 500
    sample = {"verb": "filter", "result": "error"}
    assert metrics.registry.get_sample_value("gpushare_extender_requests_total", sample) == 1000


def preemptor(cluster: ClusterState, nominated: str | None = "n") -> bytes:
    """A filter request for a pod that has preempted pods on node n."""
    cluster.change_pods([Upserted("p", pod("p", 14, priority=9))])
    asked = on_gpus(14, 1)
    asked["spec"] |= {"priority": 9}
    asked["status"] = {"nominatedNodeName": nominated} if nominated else {}
    return msgspec.json.encode({"Pod": asked, "NodeNames": ["n"]})


async def answered(served: SchedulerService, verb: str, body: bytes) -> bytes:
    answer = served.answer(verb, body)
    return answer if isinstance(answer, bytes) else await answer


async def feasible(api: FakeApi, *victims: Pod, delays: int = 1) -> tuple[list[str], int]:
    """The nodes for a preemptor of these bound pods, and the reads of pods, after that many requests."""
    cluster = ClusterState()
    cluster.change_nodes([Upserted("n", node("n", 14))])
    cluster.change_pods([Upserted(each.uid, each) for each in victims])
    async with asyncio.TaskGroup() as tasks:
        served = service(cluster, unclear=UnclearBinds(cluster, api, tasks=tasks, api_request_s=60))
        body = preemptor(cluster)
        for _ in range(delays):
            answer = await answered(served, "filter", body)
    return msgspec.json.decode(answer)["NodeNames"] or [], api.reads


async def test_a_victim_that_is_gone_before_the_watch_shows_it_is_not_waited_for() -> None:
    """kube-scheduler tries a preemptor for the last time when its last victim is gone."""
    assert await feasible(FakeApi(), pod("low", 4, at="n", card=0)) == (["n"], 1)


async def test_a_preemptor_is_read_if_the_scheduler_tries_it_before_it_knows_the_nominated_node() -> None:
    """No watch shows anything: neither that the victim is gone nor the status that the scheduler wrote."""
    cluster, low, api = ClusterState(), pod("low", 4, at="n", card=0), FakeApi()
    cluster.change_nodes([Upserted("n", node("n", 14))])
    cluster.change_pods([Upserted(low.uid, low)])
    asked = msgspec.json.decode(preemptor(cluster, nominated=None))["Pod"]
    proposed = {"Pod": asked, "NodeNameToMetaVictims": {"n": {"Pods": []}}}
    tried = msgspec.json.encode({"Pod": asked, "NodeNames": ["n"]})
    async with asyncio.TaskGroup() as tasks:
        served = service(cluster, unclear=UnclearBinds(cluster, api, tasks=tasks, api_request_s=60))
        assert served.answer("filter", tried) == await answered(served, "filter", tried)
        assert b'"low"' in await answered(served, "preempt", msgspec.json.encode(proposed))
        api.has(replace(pod("p", 14, priority=9), namespace="ns", nominated="n"))
        assert msgspec.json.decode(await answered(served, "filter", tried))["NodeNames"] == ["n"]


async def test_a_victim_that_still_exists_or_cannot_be_read_keeps_its_units() -> None:
    low, api = pod("low", 4, at="n", card=0), FakeApi()
    api.has(low)
    assert await feasible(api, low) == ([], 1)
    failing = FakeApi(read_error=ApiError("unavailable", status=503))
    assert await feasible(failing, low) == ([], 1)


async def test_pods_of_the_same_priority_are_no_victims_and_are_not_read() -> None:
    assert await feasible(FakeApi(), pod("equal", 4, at="n", card=0, priority=9)) == ([], 0)


async def test_a_preemptor_that_is_refused_again_and_again_causes_few_reads() -> None:
    low, api = pod("low", 4, at="n", card=0), FakeApi()
    api.has(low)
    _, reads = await feasible(api, low, delays=200)
    assert 1 <= reads <= 50


async def test_an_answer_that_takes_long_is_computed_in_slices_and_is_the_same() -> None:
    cluster = ClusterState()
    names = [f"n{number:03}" for number in range(500)]
    cluster.change_nodes([Upserted(name, node(name, 14, 14)) for name in names])
    for verb, units in (("filter", 8), ("filter", 80), ("prioritize", 6)):
        body = msgspec.json.encode({"Pod": on_gpus(units, 2), "NodeNames": names})
        cluster.slices = TimeSlices(clock=count().__next__)
        later = service(cluster).answer(verb, body)
        assert not isinstance(later, bytes)
        cluster.slices = TimeSlices(clock=lambda: 0)
        assert service(cluster).answer(verb, body) == await later


# --- groups --------------------------------------------------------------------------------------


class LeaderFake:
    """A fake of another replica that leads, and of the way to it."""

    leads = False

    def __init__(self, error: ApiError | None = None, *, known: bool = True) -> None:
        self.error = error
        self.holder = SimpleNamespace(address="192.0.2.1:1", holder="other") if known else None
        self.asked: list[tuple[str, str, bytes]] = []

    def fence(self) -> str:
        return "this extender does not hold the Lease"

    async def post(self, address: str, path: str, body: bytes) -> bytes:
        self.asked.append((address, path, body))
        if self.error:
            raise self.error
        return b"answer"


def follower(leader: LeaderFake, metrics: ExtenderMetrics | None = None) -> SchedulerService:
    return SchedulerService(
        ClusterState(),
        binder=cast("Any", None),
        leadership=cast("Any", leader),
        peers=cast("Any", leader),
        metrics=metrics or ExtenderMetrics(),
        missing=lambda: None,
    )


def of_member() -> bytes:
    asked = on_gpus(4, 1)
    asked["spec"] |= {"schedulingGroup": {"podGroupName": "g"}}
    return msgspec.json.encode({"Pod": asked, "NodeNames": ["n"]})


async def test_a_follower_asks_the_leader_for_the_place_of_a_group_member() -> None:
    leader = LeaderFake()
    answer = follower(leader).answer("filter", of_member())
    assert not isinstance(answer, bytes)
    assert await answer == b"answer"
    assert leader.asked == [("192.0.2.1:1", "/gpushare-scheduler/filter", of_member())]


async def test_without_an_answer_of_the_leader_filter_of_a_group_member_fails() -> None:
    answer = follower(LeaderFake(ApiError("timeout"))).answer("filter", of_member())
    assert not isinstance(answer, bytes)
    error = msgspec.json.decode(await answer)["Error"]
    assert error == "the extender that holds the Lease (other) did not answer: timeout"


@pytest.mark.parametrize(("error", "result"), [(None, "ok"), (ApiError("timeout"), "error")])
async def test_forwarded_filters_are_counted(error: ApiError | None, result: str) -> None:
    metrics = ExtenderMetrics()
    answer = follower(LeaderFake(error), metrics).answer("filter", of_member())
    assert not isinstance(answer, bytes)
    await answer
    labels = {"verb": "filter", "result": result}
    assert metrics.registry.get_sample_value(f"{catalogue.EXTENDER_FORWARDED.name}_total", labels) == 1


@pytest.mark.parametrize(("known", "forwarded"), [(False, False), (False, True), (True, True)])
def test_while_nobody_may_bind_filter_of_a_group_member_fails(*, known: bool, forwarded: bool) -> None:
    """kube-scheduler 1.37 tries a group again at once if its bind is refused."""
    leader = LeaderFake(known=known)
    answer = follower(leader).answer("filter", of_member(), forwarded=forwarded)
    assert isinstance(answer, bytes)
    assert msgspec.json.decode(answer)["Error"] == "this extender does not hold the Lease"
    assert leader.asked == []


def test_other_requests_are_answered_by_any_replica() -> None:
    leader = LeaderFake()
    served = follower(leader)
    alone = msgspec.json.encode({"Pod": on_gpus(4, 1), "NodeNames": ["n"]})
    assert isinstance(served.answer("filter", alone), bytes)
    assert isinstance(served.answer("prioritize", of_member()), bytes)
    assert leader.asked == []
