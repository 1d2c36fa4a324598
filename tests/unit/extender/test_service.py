"""The service without its neighbours: what it answers from the ledger."""

import asyncio
from itertools import count
from typing import Any, cast

import msgspec
from structlog.testing import capture_logs

from gpushare.contract import LABEL_CARDS_PER_POD, RESOURCE_MEM
from gpushare.extender.cluster import Cluster
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.service import SchedulerService
from gpushare.model.changes import Upserted
from gpushare.runtime.fairness import FairGate
from gpushare.scheduling.inspection import inspect
from tests.builders.scheduling import node, pod


def on_two_gpus(units: int) -> dict[str, object]:
    """A pending pod as the API writes it."""
    container = {"name": "main", "resources": {"limits": {RESOURCE_MEM: units}}}
    labels = {LABEL_CARDS_PER_POD: "2"}
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "p", "labels": labels},
        "spec": {"containers": [container]},
    }


class Synced:
    def missing(self) -> str | None:
        return None


def service(cluster: Cluster, metrics: ExtenderMetrics | None = None) -> SchedulerService:
    absent = cast("Any", None)
    return SchedulerService(
        cluster,
        binder=absent,
        leadership=absent,
        peers=absent,
        metrics=metrics or ExtenderMetrics(),
        readiness=Synced(),
    )


async def test_requests_for_all_nodes_at_the_same_time_share_one_document() -> None:
    served = service(Cluster())
    first, second = await asyncio.gather(served.inspect_all(), served.inspect_all())
    assert first is second
    assert await served.inspect_all() is not first


async def test_all_nodes_are_inspected_as_one_document() -> None:
    cluster = Cluster()
    assert msgspec.json.decode(await service(cluster).inspect_all()) == {"nodes": []}
    cluster.change_nodes([Upserted(name, node(name, 14, 14)) for name in "ba"])
    cluster.see_pod(pod("p", 4, at="a", card=1))
    assert msgspec.json.decode(await service(cluster).inspect_all()) == inspect(cluster.ledger)


def test_of_many_requests_that_are_refused_some_are_logged_and_all_are_counted() -> None:
    metrics = ExtenderMetrics()
    with capture_logs() as logs:
        served = service(Cluster(), metrics)
        for _ in range(1000):
            served.answer("filter", b"{")
    assert 100 <= len(logs) < 500
    sample = {"verb": "filter", "result": "error"}
    assert metrics.registry.get_sample_value("gpushare_extender_requests_total", sample) == 1000


async def test_an_answer_that_takes_long_is_computed_in_slices_and_is_the_same() -> None:
    cluster = Cluster()
    names = [f"n{number:03}" for number in range(500)]
    cluster.change_nodes([Upserted(name, node(name, 14, 14)) for name in names])
    for verb, units in (("filter", 8), ("filter", 80), ("prioritize", 6)):
        body = msgspec.json.encode({"Pod": on_two_gpus(units), "NodeNames": names})
        cluster.turns = FairGate(clock=count().__next__)
        later = service(cluster).answer(verb, body)
        assert not isinstance(later, bytes)
        cluster.turns = FairGate(clock=lambda: 0)
        assert service(cluster).answer(verb, body) == await later
