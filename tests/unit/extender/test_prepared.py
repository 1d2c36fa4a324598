"""Scores that are computed before the scheduler asks for them."""

import asyncio
import json
from typing import Any

from gpushare.extender.cluster import ClusterState
from gpushare.extender.prepared import PreparedScores, expected_request
from gpushare.model.changes import Upserted
from gpushare.runtime.fairness import TimeSlices
from tests.support.builders.scheduling import node, pod
from tests.unit.extender.test_service import on_gpus, service


def request(*names: str, units: int = 4) -> bytes:
    """As Go writes it."""
    document = {"Pod": on_gpus(units, 1), "Nodes": None, "NodeNames": [*names]}
    return json.dumps(document, separators=(",", ":")).encode()


def busy() -> ClusterState:
    """Two nodes with room; no work takes time, so that every answer is given at once."""
    cluster = ClusterState()
    cluster.slices = TimeSlices(lambda: 0.0)
    cluster.change_nodes([Upserted(name, node(name, 14)) for name in ("a", "b", "full")])
    cluster.change_pods(
        [Upserted("x", pod("x", 8, at="b", card=0)), Upserted("y", pod("y", 14, at="full", card=0))]
    )
    return cluster


def test_the_request_of_prioritize_is_that_of_filter_with_the_nodes_that_passed() -> None:
    assert expected_request(request("a", "b"), ["a", "b"]) == request("a", "b")
    assert expected_request(request("a", "full", "b"), ["a", "b"]) == request("a", "b")
    assert expected_request(b'{"pod":{},"nodenames":["a"]}', ["a"]) is None
    assert expected_request(request("a") + b"\n", ["a"]) is None


def test_an_answer_is_taken_once_for_its_request_and_within_a_second() -> None:
    now = [0.0]
    prepared: PreparedScores[bytes] = PreparedScores(lambda: now[0])
    assert prepared.take(b"r") is None
    prepared.keep(b"r", b"answer")
    assert prepared.take(b"r") == b"answer"
    assert prepared.take(b"r") is None
    prepared.keep(b"r", b"answer")
    assert prepared.take(b"other") is None
    prepared.keep(b"r", b"answer")
    now[0] = 1.1
    assert prepared.take(b"r") is None


async def scores_of(cluster: ClusterState, *, after_filter: bool) -> Any:
    served = service(cluster)
    served.answer("prioritize", request("a"))  # the scheduler calls the verb
    if after_filter:
        served.answer("filter", request("a", "full", "b"))
        await asyncio.sleep(0)
        assert served._prepared._last is not None
    answer = served.answer("prioritize", request("a", "b"))
    assert isinstance(answer, bytes)
    assert served._prepared._last is None
    return json.loads(answer)


async def test_prepared_scores_are_those_of_a_request_without_filter() -> None:
    prepared = await scores_of(busy(), after_filter=True)
    assert prepared == await scores_of(busy(), after_filter=False)
    assert [each["Host"] for each in prepared] == ["b"]


async def test_another_pod_does_not_get_them() -> None:
    served = service(busy())
    served.answer("prioritize", request("a"))
    served.answer("filter", request("a", "b", units=4))
    await asyncio.sleep(0)
    other = served.answer("prioritize", request("a", "b", units=7))
    assert isinstance(other, bytes)
    # 7 units do not fit beside the 8 on node b.
    assert [each["Host"] for each in json.loads(other)] == ["a"]


async def test_nothing_is_prepared_for_a_scheduler_that_asks_for_no_scores() -> None:
    served = service(busy())
    served.answer("filter", request("a", "b"))
    await asyncio.sleep(0)
    assert served._prepared._last is None
