"""Prioritize under the policy replay."""

import asyncio
import json
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpushare.contract import ANN_PLACEMENT, RESOURCE_MEM
from gpushare.extender.cluster import ClusterState
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.replay import ReplayScores
from gpushare.extender.replay_verb import Question, question_steps
from gpushare.model.changes import Upserted
from gpushare.model.resources import Load, Resources
from gpushare.scheduling.placement.replay.engine import PlainEngine
from gpushare.scheduling.placement.replay.needs import Need
from tests.support.builders.scheduling import node
from tests.unit.extender.test_service import service


def asked(
    *names: str, units: int | str = 4, annotations: dict[str, str] | None = None, **request: Any
) -> bytes:
    resources = {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {RESOURCE_MEM: units}}
    pod = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "p", "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "resources": resources}]},
    }
    return json.dumps({"Pod": pod, **(request or {"NodeNames": list(names)})}).encode()


def compact(*names: str) -> bytes:
    """As Go writes it."""
    return json.dumps(json.loads(asked(*names)), separators=(",", ":")).encode()


def question(body: bytes) -> Question | None:
    steps = question_steps(body)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Question | None = end.value
            return found


def test_a_request_asks_for_what_the_pod_needs() -> None:
    assert question(asked("a", "b")) == Question(Need(500, 64, 1, 4), ["a", "b"])


def test_a_pod_without_gpus_is_compared_too() -> None:
    assert question(asked("a", units=0)) == Question(Need(500, 64, 0, 0), ["a"])


@pytest.mark.parametrize(
    "body",
    [
        asked("a", annotations={ANN_PLACEMENT: "spread"}),
        asked("a", units="odd"),
        asked(Nodes={"items": []}),
        asked(Other=1),
        b"{",
        b'{"NodeNames": ["a"]}',
    ],
)
def test_replay_has_no_opinion_about_other_requests(body: bytes) -> None:
    assert question(body) is None


class CountingEngine(PlainEngine):
    """Counts the comparisons of nodes."""

    comparisons = 0

    def losses(self, need: Need, nodes: Sequence[int]) -> Sequence[int]:
        self.comparisons += 1
        return super().losses(need, nodes)


class Bed:
    """The service with replay: node a is fuller, and node b has more free CPU."""

    def __init__(self) -> None:
        metrics = ExtenderMetrics()
        self.engine = CountingEngine()
        self.replay = ReplayScores(self.engine, metrics, 60)
        self.cluster = ClusterState(self.replay.follow)
        offering = replace(node("a", 8), allocatable=Resources(4000, 4096))
        self.cluster.change_nodes([Upserted(name, replace(offering, name=name)) for name in ("a", "b")])
        self.cluster.change_nodes([Upserted("c", replace(node("c", 16), allocatable=offering.allocatable))])
        self.service = service(self.cluster, metrics, replay=self.replay)

    async def scores(self, body: bytes) -> dict[str, int]:
        answer = self.service.answer("prioritize", body)
        found = json.loads(await answer if isinstance(answer, Coroutine) else answer)
        return {each["Host"]: each["Score"] for each in found}


async def test_the_scores_are_those_of_replay() -> None:
    bed = Bed()
    assert await bed.scores(asked("a", "b", "c")) == {"a": 9, "b": 1}
    bed.cluster.change_loads({"q": Load("a", Resources(3900, 0))})
    assert await bed.scores(asked("a", "b", "c")) == {"b": 10, "c": 1}


async def test_after_filter_nodes_are_compared_ahead() -> None:
    bed = Bed()
    expected = await bed.scores(compact("a", "b", "c"))
    bed.service.answer("filter", compact("a", "b", "c"))
    await asyncio.sleep(0)
    assert await bed.scores(compact("a", "b", "c")) == expected
    assert bed.engine.comparisons == 2


async def test_a_comparison_for_other_nodes_answers_nothing() -> None:
    bed = Bed()
    await bed.scores(compact("a", "b", "c"))
    bed.service.answer("filter", compact("a", "b", "c"))
    assert await bed.scores(compact("b", "c")) == {"b": 9}


async def test_the_annotation_of_a_pod_comes_first() -> None:
    scores = await Bed().scores(asked("a", "b", "c", annotations={ANN_PLACEMENT: "spread"}))
    assert scores["c"] == max(scores.values())
    assert "a" not in scores


async def test_nodes_without_known_cpu_have_the_scores_of_best_fit() -> None:
    bed = Bed()
    bed.cluster.change_nodes([Upserted(name, node(name, units)) for name, units in (("a", 8), ("c", 16))])
    assert await bed.scores(asked("a", "c")) == {"a": 2}
