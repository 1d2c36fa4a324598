"""Events of the agent: in order, slowly, and not lost while the API server is away."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from gpushare.deviceplugin.api.backoff import BackoffPolicy
from gpushare.deviceplugin.api.events import EventRecorder
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.ports import Event, node_event
from tests.unit.deviceplugin.nodeapi import FakeNodeApi, refused, silence

QUICK = BackoffPolicy(initial_s=0.001, max_s=0.01)


def note(text: str) -> Event:
    return node_event("n", "Reason", text)


@asynccontextmanager
async def writing(
    api: FakeNodeApi, *, per_second: float = 1000.0, metrics: PluginMetrics | None = None
) -> AsyncIterator[EventRecorder]:
    notes = EventRecorder(api, metrics or PluginMetrics(), QUICK, per_second=per_second)
    task = asyncio.create_task(notes.run())
    try:
        yield notes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(fact: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not fact():
            await asyncio.sleep(0.001)


def texts(api: FakeNodeApi) -> list[str]:
    return [each.text for each in api.notes]


async def test_events_are_written_in_their_order() -> None:
    api = FakeNodeApi()
    async with writing(api) as notes:
        for text in "abc":
            notes.write(note(text))
        await until(lambda: texts(api) == ["a", "b", "c"])


async def test_events_are_written_no_faster_than_allowed() -> None:
    api = FakeNodeApi()
    async with writing(api, per_second=20) as notes:
        began = asyncio.get_running_loop().time()
        for text in "abc":
            notes.write(note(text))
        await until(lambda: len(api.notes) == 3)
        assert asyncio.get_running_loop().time() - began >= 0.1


async def test_an_event_waits_while_the_api_is_away() -> None:
    api = FakeNodeApi(note_errors=deque([silence(), silence(), refused(503)]))
    async with writing(api) as notes:
        notes.write(note("a"))
        notes.write(note("b"))
        await until(lambda: texts(api) == ["a", "b"])


async def test_an_event_that_is_refused_is_dropped_and_the_next_is_written() -> None:
    api, metrics = FakeNodeApi(note_errors=deque([refused(403)])), PluginMetrics()

    def reduced() -> float | None:
        name = "gpushare_device_plugin_reduced_mode"
        return metrics.registry.get_sample_value(name, {"right": "events"})

    async with writing(api, metrics=metrics) as notes:
        notes.write(note("a"))
        await until(lambda: reduced() == 1)
        notes.write(note("b"))
        await until(lambda: reduced() == 0)
        assert texts(api) == ["b"]


async def test_an_event_that_waits_already_is_not_queued_twice() -> None:
    api = FakeNodeApi()
    async with writing(api) as notes:
        for text in "aab":
            notes.write(note(text))
        await until(lambda: texts(api)[-1:] == ["b"])
        assert texts(api) == ["a", "b"]


async def test_of_too_many_events_the_oldest_give_way() -> None:
    api = FakeNodeApi()
    async with writing(api, per_second=100_000) as notes:
        for number in range(1500):
            notes.write(note(str(number)))
        await until(lambda: texts(api)[-1:] == ["1499"])
        assert texts(api) == [str(number) for number in range(500, 1500)]


async def test_an_event_that_gave_way_while_it_was_written_takes_no_other_with_it() -> None:
    api = FakeNodeApi()

    async def flood() -> None:
        api.before = None
        for number in range(1000):
            notes.write(note(str(number)))

    api.before = flood
    async with writing(api, per_second=100_000) as notes:
        notes.write(note("first"))
        await until(lambda: texts(api)[-1:] == ["999"])
        assert texts(api) == ["first", *(str(number) for number in range(1000))]
