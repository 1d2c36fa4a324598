"""Replay beside the event loop: what it follows, when it answers, and what it learns from."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gpushare.adapters.kube.pod_loads import ObservedPod
from gpushare.extender.cluster import ClusterState
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.replay import ReplayScores
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.objects import Node
from gpushare.model.resources import Load, Resources
from gpushare.scheduling.placement.replay.engine import PlainEngine
from gpushare.scheduling.placement.replay.needs import Need, Sequences
from tests.support.builders.scheduling import node, pod

OFFERED = Resources(4000, 4096)
SMALL = Need(500, 64, 1, 4)


class Engine(PlainEngine):
    """Keeps what it learned, and answers when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.lessons: list[Sequences] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.error: Exception | None = None

    def learn(self, sequences: Sequences) -> None:
        self.lessons.append(sequences)
        super().learn(sequences)

    def losses(self, need: Need, nodes: Sequence[int]) -> Sequence[int]:
        self.may_answer.wait(60)
        if self.error:
            raise self.error
        return super().losses(need, nodes)


class Bed:
    """A cluster that replay follows."""

    def __init__(self, wait_s: float = 60) -> None:
        self.engine = Engine()
        self.metrics = ExtenderMetrics()
        self.replay = ReplayScores(self.engine, self.metrics, wait_s)
        self.cluster = ClusterState(self.replay.follow)

    def add(self, *nodes: Node) -> None:
        offering = [replace(each, allocatable=OFFERED) for each in nodes]
        self.cluster.change_nodes([Upserted(each.name, each) for each in offering])

    async def scores(self, *names: str, need: Need = SMALL) -> dict[str, int] | None:
        return await self.replay.scores(self.cluster.ledger, need, names)

    @property
    def late(self) -> float | None:
        return self.metrics.registry.get_sample_value("gpushare_extender_replay_late_total")

    async def until_lessons(self, number: int) -> None:
        """Wait until the engine has had so many lessons."""
        async with asyncio.timeout(60):
            while len(self.engine.lessons) < number:
                await asyncio.sleep(0.001)

    async def learn(self) -> list[Need]:
        """The different needs of the last lesson."""
        await self.replay.learn(self.cluster.ledger)
        last = self.engine.lessons[-1] if self.engine.lessons else ()
        return list(dict.fromkeys(each.need for sequence in last for each in sequence))


async def test_the_fuller_node_wins_before_anything_is_learned() -> None:
    bed = Bed()
    bed.add(node("a", 14), node("b", 14))
    bed.cluster.see_pod(pod("p", 8, at="b", card=0))
    assert await bed.scores("a", "b") == {"a": 1, "b": 10}


async def test_it_follows_the_cpu_and_memory_of_nodes() -> None:
    bed = Bed()
    bed.add(node("a", 14), node("b", 14))
    assert await bed.scores("a", "b") == {"a": 10, "b": 2}
    bed.cluster.change_loads({"p": Load("a", Resources(3600, 0))})
    assert await bed.scores("a", "b") == {"a": 0, "b": 10}


async def test_nodes_come_and_go() -> None:
    bed = Bed()
    bed.add(node("a", 14))
    await bed.scores("a")
    bed.cluster.change_nodes([Deleted("a")])
    assert await bed.scores("a") is None
    bed.add(node("b", 14, 14), node("c", 14))
    assert await bed.scores("a", "b", "c") == {"a": 0, "b": 1, "c": 10}


async def test_a_node_that_does_not_say_what_it_offers_is_no_candidate() -> None:
    bed = Bed()
    bed.cluster.change_nodes([Upserted("a", node("a", 14))])
    assert await bed.scores("a") is None


async def test_it_is_not_waited_for_longer_than_allowed() -> None:
    bed = Bed(wait_s=0.001)
    bed.add(node("a", 14))
    bed.engine.may_answer.clear()
    assert [await bed.scores("a") for _ in range(6)] == [None] * 6
    assert bed.late == 6
    bed.engine.may_answer.set()


async def test_a_late_evaluation_has_followed_the_changes() -> None:
    bed = Bed(wait_s=0.001)
    bed.add(node("a", 14))
    bed.engine.may_answer.clear()
    await bed.scores("a")
    bed.engine.may_answer.set()
    bed.replay._wait_s = 60
    assert await bed.scores("a") == {"a": 10}


async def test_an_error_of_the_engine_is_logged_and_answers_nothing() -> None:
    bed = Bed()
    bed.add(node("a", 14))
    bed.engine.error = MemoryError("no memory")
    with capture_logs() as logs:
        assert await bed.scores("a") is None
    assert [(entry["event"], entry["error"]) for entry in logs] == [("replay_failed", "no memory")]
    bed.engine.error = None
    assert await bed.scores("a") == {"a": 10}


# --- learning -----------------------------------------------------------------------------------


def ours(uid: str, units: int = 4, cpu: int = 500) -> ObservedPod:
    load = Load(None, Resources(cpu, 64))
    return ObservedPod(load, finished=False, chooses=True, created=uid, managed=pod(uid, units))


def other(at: str) -> ObservedPod:
    return ObservedPod(Load(at, Resources(100, 8)), finished=False, chooses=True, created="", managed=None)


async def test_it_learns_at_25_pods() -> None:
    bed = Bed()
    bed.add(node("a", 14))
    for number in range(24):
        bed.replay.arrived(ours(f"p{number}"))
    assert await bed.learn() == []
    bed.replay.arrived(ours("q"))
    assert await bed.learn() == [SMALL]
    await bed.learn()
    assert len(bed.engine.lessons) == 1


async def test_it_learns_once_from_many_pods_at_once() -> None:
    bed = Bed()
    bed.add(node("a", 14))
    for number in range(1000):
        bed.replay.arrived(ours(f"p{number}"))
    await bed.learn()
    assert len(bed.engine.lessons) == 1


@pytest.mark.parametrize(
    "ignored",
    [
        other("without-gpus"),
        other("unknown"),
        other("a")._replace(chooses=False),
        ours("p")._replace(chooses=False),
    ],
)
async def test_pods_that_chose_no_node_with_gpus_teach_nothing(ignored: ObservedPod) -> None:
    bed = Bed()
    bed.add(node("a", 14), node("without-gpus"))
    for _ in range(25):
        bed.replay.arrived(ignored)
    assert await bed.learn() == []


async def test_pods_without_gpus_on_nodes_with_gpus_teach_too() -> None:
    bed = Bed()
    bed.add(node("a", 14))
    for number in range(20):
        bed.replay.arrived(ours(f"p{number}"))
    for _ in range(5):
        bed.replay.arrived(other("a"))
    assert set(await bed.learn()) == {SMALL, Need(100, 8, 0, 0)}


async def test_it_learns_once_all_is_listed_and_again_as_pods_arrive() -> None:
    bed = Bed()
    synced = asyncio.Event()
    for _ in range(25):
        bed.replay.arrived(ours("p"))
    bed.add(node("a", 14))
    job = asyncio.create_task(bed.replay.run(lambda: bed.cluster.ledger, synced))
    assert bed.engine.lessons == []
    synced.set()
    await bed.until_lessons(1)
    for _ in range(25):
        bed.replay.arrived(ours("q"))
    await bed.until_lessons(2)
    job.cancel()
