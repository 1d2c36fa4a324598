"""The event recorder: written events, their order, retries, and dropped events."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from structlog.testing import capture_logs

from gpushare.errors import ApiError
from gpushare.ports import KubeEvent, node_event
from gpushare.runtime.events import EventRecorder, RecorderSettings

FAST = RecorderSettings(per_second=1000, queue_size=3, repeat_after_s=60, first_retry_s=1, longest_retry_s=8)


def note(text: str) -> KubeEvent:
    return KubeEvent("Pod", "ns", "p", "uid", "Placed", text)


def alarm(text: str) -> KubeEvent:
    return node_event("n", "Overcommitted", text)


def later(*texts: str) -> Callable[[], Awaitable[KubeEvent]]:
    """Makes events with these texts, one at each call."""
    left = iter(texts)

    async def make() -> KubeEvent:
        return note(next(left))

    return make


async def skipped() -> None:
    """Makes no event."""


def answer(status: int, *, reason: str = "", retry_after_s: float = 0) -> ApiError:
    return ApiError("no", status=status, reason=reason, retry_after_s=retry_after_s)


@dataclass
class Scene:
    """A recorder, the API that it writes to, its counters and its clock."""

    settings: RecorderSettings = FAST
    errors: deque[ApiError | None] = field(default_factory=deque)
    attempts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    is_forbidden: bool = False
    now: float = 0.0
    before: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        self.recorder = EventRecorder(
            self.write, self, self.settings, clock=lambda: self.now, sleep=self.sleep
        )

    async def write(self, event: KubeEvent) -> None:
        self.attempts.append(event.text)
        if self.before:
            self.before()
        error = self.errors.popleft() if self.errors else None
        if error:
            raise error
        self.texts.append(event.text)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def written(self) -> None:
        self.counts.append("written")

    def failed(self) -> None:
        self.counts.append("failed")

    def dropped(self) -> None:
        self.counts.append("dropped")

    def forbidden(self, *, forbidden: bool) -> None:
        self.is_forbidden = forbidden

    def record(self, *events: KubeEvent) -> None:
        for event in events:
            self.recorder.record(event)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Record and write; everything that is queued is written before the block is left."""
        task = asyncio.create_task(self.recorder.run())
        try:
            yield
            for _ in range(200):
                await asyncio.sleep(0)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_events_are_written_in_their_order_at_the_configured_rate() -> None:
    scene = Scene()
    async with scene.writing():
        scene.record(note("a"), note("b"), note("c"))
    assert scene.texts == ["a", "b", "c"]
    assert scene.pauses == [0.001] * 3


async def test_a_routine_event_waits_for_all_others() -> None:
    scene = Scene()
    async with scene.writing():
        scene.record(note("placed"))
        scene.recorder.record_later("p", later("explained"))
        scene.record(alarm("alarm"))
    assert scene.texts == ["alarm", "explained", "placed"]


async def test_the_oldest_routine_events_are_dropped_first_without_a_warning() -> None:
    scene = Scene(settings=replace(FAST, routine_size=2))
    with capture_logs() as logs:
        async with scene.writing():
            scene.record(note("a"), note("b"), alarm("alarm"), note("c"))
    assert scene.texts == ["alarm", "b", "c"]
    assert (scene.counts.count("dropped"), logs) == (1, [])


@pytest.mark.parametrize("status", [0, 409, 429, 500, 503])
async def test_an_event_is_retried_until_it_is_written(status: int) -> None:
    scene = Scene(errors=deque([answer(status)] * 5))
    async with scene.writing():
        scene.record(note("a"), note("b"))
    assert scene.attempts == ["a"] * 6 + ["b"]
    assert scene.texts == ["a", "b"]
    assert scene.counts == ["failed"] * 5 + ["written"] * 2
    for pause, longest in zip(scene.pauses[:5], (1, 2, 4, 8, 8), strict=True):
        assert longest / 2 <= pause <= longest


async def test_a_retry_waits_as_long_as_the_api_server_asks() -> None:
    scene = Scene(errors=deque([answer(429, retry_after_s=50)]))
    async with scene.writing():
        scene.record(note("a"))
    assert scene.pauses[0] == 50


@pytest.mark.parametrize("status", [400, 403, 404, 413, 422])
async def test_an_event_that_the_api_server_rejects_is_dropped_counted_and_logged(status: int) -> None:
    scene = Scene(errors=deque([answer(status)]))
    with capture_logs() as logs:
        async with scene.writing():
            scene.record(note("a"), note("b"))
    assert scene.attempts == ["a", "b"]
    assert scene.texts == ["b"]
    assert scene.counts == ["failed", "dropped", "written"]
    assert [entry["text"] for entry in logs if entry["event"] == "event_dropped"] == ["a"]


async def test_a_missing_permission_is_reported_once_until_it_is_granted() -> None:
    scene = Scene(errors=deque([answer(403), answer(403)]))
    with capture_logs() as logs:
        async with scene.writing():
            scene.record(note("a"), note("b"))
        degraded = scene.is_forbidden
        async with scene.writing():
            scene.record(note("c"))
    assert (degraded, scene.is_forbidden) == (True, False)
    assert scene.texts == ["c"]
    assert [entry["right"] for entry in logs if entry["event"] == "degraded_mode"] == ["events"]
    assert len([entry for entry in logs if entry["event"] == "event_dropped"]) == 2


async def test_an_event_of_a_terminating_namespace_is_dropped_and_is_no_missing_permission() -> None:
    scene = Scene(errors=deque([answer(403, reason="NamespaceTerminating")]))
    with capture_logs() as logs:
        async with scene.writing():
            scene.record(note("a"), note("b"))
    assert scene.texts == ["b"]
    assert scene.counts == ["failed", "dropped", "written"]
    assert not scene.is_forbidden
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("event_dropped", "info")]


async def test_a_terminating_namespace_does_not_show_that_a_missing_permission_is_granted() -> None:
    scene = Scene(errors=deque([answer(403), answer(403, reason="NamespaceTerminating")]))
    async with scene.writing():
        scene.record(note("a"), note("b"))
    assert scene.is_forbidden


async def test_an_event_that_is_queued_is_not_queued_twice() -> None:
    scene = Scene()
    scene.record(note("a"), note("a"), note("b"))
    async with scene.writing():
        pass
    assert scene.texts == ["a", "b"]


async def test_a_written_event_is_not_repeated_for_a_while() -> None:
    scene = Scene()
    async with scene.writing():
        scene.record(note("a"))
    scene.now = 59.0
    async with scene.writing():
        scene.record(note("a"), replace(note("a"), uid="another"))
    assert scene.texts == ["a", "a"]
    scene.now = 61.0
    async with scene.writing():
        scene.record(note("a"))
    assert scene.texts == ["a", "a", "a"]


async def test_an_event_that_was_dropped_is_written_when_it_is_recorded_again() -> None:
    scene = Scene(errors=deque([answer(404)]))
    for _ in range(2):
        async with scene.writing():
            scene.record(note("a"))
    assert scene.texts == ["a"]


async def test_the_time_without_repetition_starts_when_the_event_is_written() -> None:
    scene = Scene(errors=deque([answer(503, retry_after_s=100)]))
    async with scene.writing():
        scene.record(note("a"))
    assert scene.now > 100
    scene.now += 50
    async with scene.writing():
        scene.record(note("a"))
    assert scene.texts == ["a"]


async def test_a_full_queue_drops_the_oldest_event_and_logs_how_many() -> None:
    scene = Scene()
    with capture_logs() as logs:
        scene.record(*(note(text) for text in "abcde"))
        assert scene.counts == ["dropped"] * 2
        async with scene.writing():
            pass
    assert scene.texts == ["c", "d", "e"]
    assert [entry["event"] for entry in logs] == ["event_queue_full", "event_queue_empty_again"]
    assert logs[1]["dropped"] == 2


async def test_a_full_queue_keeps_alarms() -> None:
    scene = Scene()
    scene.record(alarm("over"), *(note(text) for text in "abcde"), alarm("committed"))
    async with scene.writing():
        pass
    assert scene.texts == ["over", "committed", "e"]
    assert scene.counts.count("dropped") == 4


async def test_a_full_queue_drops_normal_events_first_and_then_the_oldest_warning() -> None:
    scene = Scene()
    scene.record(*(alarm(text) for text in "abc"), note("note"), alarm("d"))
    async with scene.writing():
        pass
    assert scene.texts == ["b", "c", "d"]
    assert scene.counts.count("dropped") == 2


async def test_a_retried_event_is_dropped_if_the_queue_is_full() -> None:
    scene = Scene(errors=deque([answer(500)]))

    def flood() -> None:
        scene.before = None
        scene.record(*(note(text) for text in "abc"))

    scene.before = flood
    async with scene.writing():
        scene.record(note("first"))
    assert scene.texts == ["a", "b", "c"]
    assert scene.counts.count("dropped") == 1


async def test_an_event_that_is_recorded_again_while_it_is_written_is_written_once() -> None:
    scene = Scene(errors=deque([answer(500)]))
    scene.before = lambda: scene.record(note("a"))
    async with scene.writing():
        scene.record(note("a"))
    assert scene.texts == ["a"]


async def test_while_a_backlog_grows_the_pauses_are_longer() -> None:
    scene = Scene(replace(FAST, queue_size=1000))
    scene.record(*(note(str(number)) for number in range(52)))
    async with scene.writing():
        pass
    assert scene.pauses[:2] == [0.01, 0.001]


async def test_a_deferred_event_is_created_when_written_and_at_each_retry() -> None:
    scene = Scene(errors=deque([None, answer(500)]))
    make = later(*"xyz")
    for key in "ppq":
        scene.recorder.record_later(key, make)
    scene.recorder.record_later("r", skipped)
    async with scene.writing():
        pass
    assert scene.attempts == ["x", "y", "z"]


async def test_a_deferred_event_that_fails_affects_no_other() -> None:
    scene = Scene()

    async def broken() -> KubeEvent:
        raise ZeroDivisionError

    scene.recorder.record_later("p", broken)
    with capture_logs() as logs:
        async with scene.writing():
            scene.record(note("a"))
    assert scene.texts == ["a"]
    assert scene.counts == ["dropped", "written"]
    assert [entry["event"] for entry in logs] == ["event_not_made"]


async def test_an_event_that_is_not_written_lets_other_work_run() -> None:
    """Thousands of them may be queued after a new list."""
    scene = Scene()
    async with scene.writing():
        for each in range(3):
            scene.recorder.record_later(str(each), skipped)
    assert (scene.texts, scene.pauses) == ([], [0.0] * 3)
