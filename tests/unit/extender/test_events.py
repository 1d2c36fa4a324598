"""Events for users: in the background, once per text, never at the cost of a bind."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from gpushare.adapters.kube.watch import Upserted
from gpushare.contract import EVENT_MALFORMED, EVENT_REFUSED
from gpushare.extender.cluster import Cluster
from gpushare.extender.events import _QUEUE_SIZE, EventQueue
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.model.demand import Malformed
from gpushare.model.objects import Node, Pod
from gpushare.ports import Event, pod_event
from tests.support.builders import node, pod
from tests.support.waiting import until
from tests.unit.extender.fakes import FakeApi, refused

FULL = (node("n", 14), pod("a", 12, at="n", card=0))


def waiting(uid: str, asks: int | Malformed = 4) -> Pod:
    """A pod that the scheduler could not place."""
    return replace(pod(uid, asks), unschedulable="0/1 nodes are available")


def said(text: str) -> Event:
    return pod_event(pod("p"), EVENT_REFUSED, text)


@dataclass
class Desk:
    """A notebook that writes as fast as it can, and what it knows."""

    api: FakeApi
    cluster: Cluster
    metrics: ExtenderMetrics
    event_queue: EventQueue

    def see(self, *things: Node | Pod) -> None:
        for thing in things:
            if isinstance(thing, Node):
                self.cluster.change_nodes([Upserted(thing.name, thing)])
            else:
                self.cluster.change_pods([Upserted(thing.uid, thing)])

    def dropped(self) -> float | None:
        return self.metrics.registry.get_sample_value("gpushare_extender_events_dropped_total")

    def reduced(self) -> float | None:
        return self.metrics.registry.get_sample_value("gpushare_extender_reduced_mode", {"right": "events"})

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.event_queue.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def texts(self, *wanted: str) -> None:
        """Return when a last note is written; these were before it."""
        self.event_queue.write(said("the last"))
        await until(lambda: self.api.notes and self.api.notes[-1].text == "the last")
        assert [note.text for note in self.api.notes[:-1]] == list(wanted)


def desk(*things: Node | Pod) -> Desk:
    api, cluster, metrics = FakeApi(), Cluster(), ExtenderMetrics()
    made = Desk(api, cluster, metrics, EventQueue(cluster, api, metrics, per_second=1e6))
    made.see(*things)
    return made


async def test_notes_are_written_in_their_order() -> None:
    d = desk()
    d.event_queue.write(said("one"))
    d.event_queue.write(said("two"))
    async with d.writing():
        await d.texts("one", "two")


async def test_where_the_queue_is_full_the_oldest_give_way_and_are_counted() -> None:
    d = desk()
    for number in range(_QUEUE_SIZE + 2):
        d.event_queue.write(said(str(number)))
    assert d.dropped() == 2
    async with d.writing():
        await until(lambda: d.api.notes)
        assert d.api.notes[0].text == "2"


async def test_a_pod_whose_turn_was_dropped_may_ask_again() -> None:
    d = desk(*FULL, waiting("p"))
    d.event_queue.explain(d.cluster.pods["p"])
    for number in range(_QUEUE_SIZE):
        d.event_queue.write(said(str(number)))
    d.event_queue.explain(d.cluster.pods["p"])
    assert d.dropped() == 2


async def test_a_pod_that_waits_is_told_why_by_card() -> None:
    d = desk(*FULL, waiting("p"))
    d.event_queue.explain(d.cluster.pods["p"])
    async with d.writing():
        await until(lambda: d.api.notes)
    [note] = d.api.notes
    assert (note.uid, note.reason, note.warning) == ("p", EVENT_REFUSED, True)
    assert "asked 4, at most 2 of 14 free on card 0" in note.text


async def test_the_same_reason_is_told_once_and_another_one_again() -> None:
    d = desk(*FULL, waiting("p"))
    async with d.writing():
        d.event_queue.explain(d.cluster.pods["p"])
        await until(lambda: d.api.notes)
        first = d.api.notes[0].text
        d.event_queue.explain(d.cluster.pods["p"])
        await d.texts(first)
        d.see(pod("b", 1, at="n", card=0))
        d.event_queue.explain(d.cluster.pods["p"])
        await until(lambda: len(d.api.notes) == 3)
    assert "at most 1 of 14" in d.api.notes[2].text


async def test_a_pod_that_is_forgotten_is_told_anew() -> None:
    d = desk(*FULL, waiting("p"))
    async with d.writing():
        for count in (1, 2):
            d.event_queue.explain(d.cluster.pods["p"])
            await until(lambda: len(d.api.notes) == count)  # noqa: B023 - awaited here
            d.event_queue.forget("p")


async def test_a_pod_that_found_a_place_before_its_turn_is_told_nothing() -> None:
    d = desk(*FULL, waiting("p"))
    d.event_queue.explain(d.cluster.pods["p"])
    d.see(pod("p", 2, at="n", card=0))
    async with d.writing():
        await d.texts()


async def test_a_pod_for_which_a_node_has_room_is_told_nothing() -> None:
    d = desk(node("n", 14), waiting("p"))
    d.event_queue.explain(d.cluster.pods["p"])
    async with d.writing():
        await d.texts()


async def test_a_pod_that_the_scheduler_has_not_tried_yet_is_not_explained() -> None:
    d = desk(*FULL, pod("p", 4))
    d.event_queue.explain(d.cluster.pods["p"])
    async with d.writing():
        await d.texts()


async def test_a_malformed_pod_is_told_its_problem() -> None:
    d = desk(*FULL, waiting("p", Malformed("limit is -4")))
    d.event_queue.explain(d.cluster.pods["p"])
    async with d.writing():
        await until(lambda: d.api.notes)
    assert [(note.reason, note.text) for note in d.api.notes] == [(EVENT_MALFORMED, "limit is -4")]


async def test_without_the_right_to_events_it_goes_on_reduced_until_the_right_is_there() -> None:
    d = desk()
    d.api.note_errors = deque([refused(403), refused(403), None])
    async with d.writing():
        for text in ("one", "two"):
            d.event_queue.write(said(text))
        await until(lambda: d.dropped() == 2)
        assert d.reduced() == 1
        await d.texts()
        assert d.reduced() == 0


async def test_a_note_that_could_not_be_written_is_counted_and_the_next_one_is_written() -> None:
    d = desk()
    d.api.note_errors = deque([refused(500)])
    async with d.writing():
        d.event_queue.write(said("one"))
        await d.texts()
    assert d.dropped() == 1
