"""Events that explain why a pod is pending, and the extender's counters of events."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from gpushare.contract import EVENT_MALFORMED, EVENT_PLACED, EVENT_REFUSED
from gpushare.extender.cluster import ClusterState
from gpushare.extender.events import Explainer, ExtenderEventMetrics
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.model.changes import Upserted
from gpushare.model.demand import Malformed
from gpushare.model.objects import Node, Pod
from gpushare.ports import pod_event
from gpushare.runtime.events import EventRecorder, RecorderSettings
from gpushare.runtime.fairness import TimeSlices
from tests.support.builders.scheduling import node, pod
from tests.support.waiting import until
from tests.unit.extender.fakes import FakeApi, refused

FULL = (node("n", 14), pod("a", 12, at="n", card=0))


def waiting(uid: str, asks: int | Malformed = 4) -> Pod:
    """A pod that the scheduler could not place."""
    return replace(pod(uid, asks), unschedulable="0/1 nodes are available")


@dataclass
class Scene:
    """An explainer with a recorder that writes without pauses."""

    api: FakeApi = field(default_factory=FakeApi)
    cluster: ClusterState = field(default_factory=ClusterState)
    metrics: ExtenderMetrics = field(default_factory=ExtenderMetrics)

    def __post_init__(self) -> None:
        settings = RecorderSettings(per_second=1e6, first_retry_s=0)
        self.recorder = EventRecorder(self.api.write_event, ExtenderEventMetrics(self.metrics), settings)
        self.explainer = Explainer(self.cluster, self.recorder)

    def see(self, *things: Node | Pod) -> None:
        for thing in things:
            if isinstance(thing, Node):
                self.cluster.change_nodes([Upserted(thing.name, thing)])
            else:
                self.cluster.change_pods([Upserted(thing.uid, thing)])

    def explain(self, uid: str = "p") -> None:
        self.explainer.explain(self.cluster.pods[uid])

    def dropped(self) -> float | None:
        return self.metrics.registry.get_sample_value("gpushare_extender_events_dropped_total")

    def reduced(self) -> float | None:
        return self.metrics.registry.get_sample_value("gpushare_extender_degraded_mode", {"right": "events"})

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.recorder.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def texts(self, *wanted: str) -> None:
        """Assert that these events are written before one that is recorded now."""
        last = pod_event(pod("last"), EVENT_REFUSED, "the last")
        self.recorder.record(last)
        await until(lambda: self.api.notes and self.api.notes[-1] == last)
        assert [note.text for note in self.api.notes[:-1]] == list(wanted)


class Turns(TimeSlices):
    """Turns on a clock that each reading advances; ``after`` is called after each slice."""

    def __init__(self, after: Callable[[], None] = lambda: None) -> None:
        super().__init__(self.clock, self.pause)
        self.pauses: list[float] = []
        self.worked = 0.0
        self.now = self.began = 0.0
        self.after = after

    async def turn(self, source: str = "") -> None:
        await super().turn(source)
        self.began = self.now + 0.001

    def clock(self) -> float:
        self.now += 0.001
        return self.now

    async def pause(self, seconds: float) -> None:
        self.worked += self.now - self.began
        self.pauses.append(seconds)
        self.after()


def scene_with(*things: Node | Pod) -> Scene:
    scene = Scene()
    scene.see(*things)
    return scene


async def test_a_pod_that_waits_gets_the_reason_by_gpu() -> None:
    scene = scene_with(*FULL, waiting("p"))
    scene.explain()
    async with scene.writing():
        await until(lambda: scene.api.notes)
    [note] = scene.api.notes
    assert (note.uid, note.reason, note.warning) == ("p", EVENT_REFUSED, True)
    assert "asked 4, at most 2 of 14 free on GPU 0" in note.text


async def test_the_same_reason_is_written_once_and_another_one_again() -> None:
    scene = scene_with(*FULL, waiting("p"))
    async with scene.writing():
        scene.explain()
        await until(lambda: scene.api.notes)
        first = scene.api.notes[0].text
        scene.explain()
        await scene.texts(first)
        scene.see(pod("b", 1, at="n", card=0))
        scene.explain()
        await until(lambda: len(scene.api.notes) == 3)
    assert "at most 1 of 14" in scene.api.notes[2].text


async def test_a_reason_that_the_api_server_failed_to_take_is_written_later() -> None:
    scene = scene_with(*FULL, waiting("p"))
    scene.api.note_errors = deque([refused(500)])
    scene.explain()
    async with scene.writing():
        await until(lambda: scene.api.notes)
    assert scene.dropped() == 0


async def test_a_reason_that_was_dropped_is_written_when_the_scheduler_tries_again() -> None:
    scene = scene_with(*FULL, waiting("p"))
    scene.api.note_errors = deque([refused(404)])
    async with scene.writing():
        scene.explain()
        await until(lambda: scene.dropped() == 1)
        scene.explain()
        await until(lambda: scene.api.notes)


async def test_all_refused_pods_are_explained_at_once() -> None:
    scene = scene_with(*FULL, waiting("p"), pod("new", 4), waiting("q"))
    scene.explainer.explain_all()
    async with scene.writing():
        await until(lambda: len(scene.api.notes) == 2)
    assert [note.uid for note in scene.api.notes] == ["p", "q"]


async def test_of_very_many_refused_pods_the_first_500_are_explained() -> None:
    scene = scene_with(*FULL, *(waiting(f"p{number}") for number in range(600)))
    scene.explainer.explain_all()
    after_all_others = pod_event(pod("placed"), EVENT_PLACED, "routine")
    scene.recorder.record(after_all_others)
    async with scene.writing():
        await until(lambda: after_all_others in scene.api.notes, within_s=30)
    assert [note.uid for note in scene.api.notes] == [*(f"p{number}" for number in range(500)), "placed"]


async def test_a_pod_that_was_placed_meanwhile_gets_no_event() -> None:
    scene = scene_with(*FULL, waiting("p"))
    scene.explain()
    scene.see(pod("p", 2, at="n", card=0))
    async with scene.writing():
        await scene.texts()


async def test_a_pod_that_fits_on_a_node_gets_no_event() -> None:
    scene = scene_with(node("n", 14), waiting("p"))
    scene.explain()
    async with scene.writing():
        await scene.texts()


async def test_a_pod_that_the_scheduler_has_not_tried_has_no_explanation() -> None:
    scene = scene_with(*FULL, pod("p", 4))
    scene.explain()
    async with scene.writing():
        await scene.texts()


@pytest.mark.parametrize(
    "ignored",
    [
        replace(waiting("p"), gated=True),
        replace(waiting("p"), terminating=True),
        replace(waiting("p"), finished=True),
    ],
)
async def test_a_pod_that_the_scheduler_does_not_consider_has_no_explanation(ignored: Pod) -> None:
    scene = scene_with(*FULL, ignored)
    scene.explain()
    async with scene.writing():
        await scene.texts()


async def test_a_pod_that_is_deleted_before_its_explanation_is_computed_gets_no_event() -> None:
    scene = scene_with(*FULL, waiting("p"))
    scene.explain()
    scene.see(replace(waiting("p"), terminating=True))
    async with scene.writing():
        await scene.texts()


async def test_a_pod_that_is_placed_while_its_explanation_is_computed_gets_no_event() -> None:
    scene = scene_with(*FULL, waiting("p"))
    scene.cluster.slices = Turns(lambda: scene.see(pod("p", 2, at="n", card=0)))
    scene.explain()
    async with scene.writing():
        await scene.texts()


async def test_an_explanation_leaves_nine_tenths_of_the_time_to_other_work() -> None:
    scene = scene_with(*(node(f"n{number}", 2) for number in range(200)), waiting("p"))
    scene.cluster.slices = turns = Turns()
    scene.explain()
    async with scene.writing():
        await until(lambda: scene.api.notes)
    assert len(turns.pauses) > 1
    assert sum(turns.pauses) == pytest.approx(9 * turns.worked)


async def test_a_malformed_pod_gets_its_problem() -> None:
    scene = scene_with(*FULL, waiting("p", Malformed("limit is -4")))
    scene.explain()
    async with scene.writing():
        await until(lambda: scene.api.notes)
    assert [(note.reason, note.text) for note in scene.api.notes] == [(EVENT_MALFORMED, "limit is -4")]


async def test_without_permission_for_events_it_is_degraded_until_that_is_granted() -> None:
    scene = scene_with(*FULL, waiting("p"))
    scene.api.note_errors = deque([refused(403), None])
    async with scene.writing():
        scene.explain()
        await until(lambda: scene.dropped() == 1)
        assert scene.reduced() == 1
        await scene.texts()
        assert scene.reduced() == 0


async def test_a_pod_that_waits_because_others_were_rejected_gets_the_reason_and_the_time() -> None:
    scene = Scene()
    scene.see(node("n", 14))
    for uid in "ab":
        bound = replace(pod(uid, at="n"), workload="web")
        scene.see(bound, replace(bound, finished=True, rejected="no library"))
    scene.see(replace(waiting("p"), workload="web"))
    async with scene.writing():
        scene.explain()
        await until(lambda: bool(scene.api.notes))
    (event,) = scene.api.notes
    assert event.text.startswith("goes to n from ")
    assert event.text.endswith("UTC on, because other pods of its workload were rejected: node n: no library")
