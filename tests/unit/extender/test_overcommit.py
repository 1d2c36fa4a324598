"""The alarm for over-committed GPUs."""

import asyncio

from structlog.testing import capture_logs

from gpushare.extender.cluster import ClusterState
from gpushare.extender.events import ExtenderEventMetrics
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.overcommit import watch_overcommit
from gpushare.model.changes import Deleted, Upserted
from gpushare.runtime.events import EventRecorder, RecorderSettings
from gpushare.runtime.fairness import TimeSlices
from tests.support.builders.scheduling import node, pod
from tests.support.virtual_time import skip_waits
from tests.support.waiting import until
from tests.unit.extender.fakes import FakeApi


async def test_each_over_committed_gpu_is_reported_once_and_its_recovery_too() -> None:
    """One report at a time, because there may be thousands."""
    skip_waits(asyncio.get_running_loop())
    cluster, api, turns = ClusterState(), FakeApi(), 0

    class Turns(TimeSlices):
        async def turn(self, source: str = "") -> None:
            nonlocal turns
            turns += 1
            await super().turn(source)

    seconds = iter(range(10_000))
    cluster.slices = Turns(clock=lambda: next(seconds))
    metrics = ExtenderEventMetrics(ExtenderMetrics())
    recorder = EventRecorder(api.write_event, metrics, RecorderSettings())
    cluster.change_nodes([Upserted(name, node(name, 14)) for name in "ab"])
    pods = [pod(f"{name}{number}", 14, at=name, card=0) for name in "ab" for number in range(2)]
    cluster.change_pods([Upserted(each.uid, each) for each in pods])
    with capture_logs() as logs:
        watching = asyncio.create_task(watch_overcommit(cluster, recorder))
        await until(lambda: len(logs) == 2)
        cluster.change_pods([Deleted("a1")])
        await until(lambda: len(logs) == 3)
        watching.cancel()
    assert {(each["event"], each["node"]) for each in logs} == {
        ("card_overcommitted", "a"),
        ("card_overcommitted", "b"),
        ("card_no_longer_overcommitted", "a"),
    }
    assert turns >= 5
