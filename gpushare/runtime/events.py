"""The event recorder: writes Kubernetes Events in the background, at a limited rate, for every daemon.

A daemon supplies the call that writes one event, the counters, and the content of its events.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

import structlog

from gpushare.errors import ApiError
from gpushare.ports import KubeEvent

log = structlog.get_logger()

_PERMANENT: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""An event that the API server rejects with one of these is rejected again, and would block the queue."""
_TERMINATING: Final = "NamespaceTerminating"
"""The reason of a 403 for a new object in a namespace that is being deleted."""
_MAX_DOUBLINGS: Final = 16
_BACKLOG: Final = 50
_BACKLOG_FACTOR: Final = 10
_BACKLOG_AGE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """Durations in seconds.

    ``queue_size`` is the number of events that may wait, ``routine_size`` that of events that report no
    problem.
    """

    per_second: float = 5.0
    queue_size: int = 1000
    routine_size: int = 1000
    repeat_after_s: float = 60.0
    first_retry_s: float = 0.25
    longest_retry_s: float = 30.0


class RecorderMetrics(Protocol):
    """The counters of one daemon."""

    def written(self) -> None:
        """An event was written."""

    def failed(self) -> None:
        """An attempt to write failed."""

    def dropped(self) -> None:
        """An event will never be written."""

    def forbidden(self, *, forbidden: bool) -> None:
        """Whether the account lacks the right to create events."""


MakeEvent = Callable[[], Awaitable[KubeEvent | None]]


class _Lane(IntEnum):
    """What is written first and dropped last. ``LATER`` are events that are made when they are written."""

    ALARM = 0
    LATER = 1
    ROUTINE = 2


@dataclass(frozen=True, slots=True)
class _QueuedEvent:
    """A queued event. ``make`` is called when it is about to be written, and returns None to skip it."""

    key: KubeEvent | str
    make: MakeEvent
    lane: _Lane


class EventRecorder:
    """A bounded queue of events with one writer.

    Alarms (warnings) are written before everything else and are the last to be dropped from a full queue.
    Routine events, such as a placement, are written last and dropped first, the oldest ones first. Every drop
    is counted, and that of another event is logged.
    """

    def __init__(
        self,
        write: Callable[[KubeEvent], Awaitable[None]],
        metrics: RecorderMetrics,
        settings: RecorderSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._write = write
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._lanes: dict[_Lane, deque[_QueuedEvent]] = {lane: deque() for lane in _Lane}
        self._queued: set[KubeEvent | str] = set()
        self._filled = asyncio.Event()
        self._recorded_at = float("-inf")
        self._written: dict[KubeEvent, float] = {}
        self._failures = 0
        self._overflow = 0
        self._forbidden = False

    def record(self, event: KubeEvent) -> None:
        """Queue an event, unless an identical one is queued already."""
        lane = _Lane.ALARM if event.warning else _Lane.ROUTINE
        self._record(_QueuedEvent(event, partial(_made, event), lane))

    def record_later(self, key: str, make: MakeEvent) -> None:
        """Queue an event that is made when it is about to be written; None skips it.

        ``key`` identifies it while it is queued. It is never an alarm, even if it becomes a warning.
        """
        self._record(_QueuedEvent(key, make, _Lane.LATER))

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._filled.wait()
            entry = self._pop()
            event = await self._make(entry)
            pause_s = 0.0
            if event is not None and not self._is_repeated(event):
                pause_s = await self._send(entry, event)
            await self._sleep(pause_s)

    def _record(self, entry: _QueuedEvent) -> None:
        self._recorded_at = self._clock()
        if entry.key not in self._queued:
            self._lanes[entry.lane].append(entry)
            self._added(entry)

    def _put_back(self, entry: _QueuedEvent) -> None:
        """Queue an event again, at the front, unless the same one was queued meanwhile."""
        if entry.key not in self._queued:
            self._lanes[entry.lane].appendleft(entry)
            self._added(entry)

    def _added(self, entry: _QueuedEvent) -> None:
        self._queued.add(entry.key)
        self._filled.set()
        if len(self._lanes[_Lane.ROUTINE]) > self._settings.routine_size:
            self._drop(_Lane.ROUTINE)
        elif len(self._queued) > self._settings.queue_size:
            self._drop_least_important()

    def _drop(self, lane: _Lane) -> None:
        self._queued.discard(self._lanes[lane].popleft().key)
        self._metrics.dropped()

    def _drop_least_important(self) -> None:
        """The first drop is logged, and their number once the queue is empty."""
        self._drop(max(lane for lane in _Lane if self._lanes[lane]))
        if not self._overflow:
            log.warning("event_queue_full", size=self._settings.queue_size)
        self._overflow += 1

    def _pop(self) -> _QueuedEvent:
        entry = next(self._lanes[lane] for lane in _Lane if self._lanes[lane]).popleft()
        self._queued.discard(entry.key)
        if not self._queued:
            self._filled.clear()
            if self._overflow:
                log.warning("event_queue_empty_again", dropped=self._overflow)
                self._overflow = 0
        return entry

    async def _make(self, entry: _QueuedEvent) -> KubeEvent | None:
        try:
            return await entry.make()
        except Exception:  # a defect in one event must not stop the daemon
            log.exception("event_not_made", key=entry.key)
            self._metrics.dropped()
            return None

    def _is_repeated(self, event: KubeEvent) -> bool:
        """Whether an identical event was written less than ``repeat_after_s`` ago."""
        oldest = self._clock() - self._settings.repeat_after_s
        while self._written and next(iter(self._written.values())) <= oldest:
            del self._written[next(iter(self._written))]
        return event in self._written

    async def _send(self, entry: _QueuedEvent, event: KubeEvent) -> float:
        """Returns the seconds until the next event may be written."""
        try:
            await self._write(event)
        except ApiError as error:
            self._metrics.failed()
            if error.status not in _PERMANENT:
                return self._retry(entry, event, error)
            self._reject(event, error)
        else:
            self._metrics.written()
            self._metrics.forbidden(forbidden=False)
            self._forbidden = False
            self._written[event] = self._clock()
        self._failures = 0
        return self._interval_s()

    def _interval_s(self) -> float:
        """Longer while many events wait and more arrive: the API server is then busy with binds."""
        busy = len(self._queued) > _BACKLOG and self._clock() - self._recorded_at < _BACKLOG_AGE_S
        return (_BACKLOG_FACTOR if busy else 1) / self._settings.per_second

    def _retry(self, entry: _QueuedEvent, event: KubeEvent, error: ApiError) -> float:
        self._put_back(entry)
        doubled_s: float = self._settings.first_retry_s * 2 ** min(self._failures, _MAX_DOUBLINGS)
        jitter = random.uniform(0.5, 1)  # noqa: S311 - not a secret
        pause_s = max(min(self._settings.longest_retry_s, doubled_s) * jitter, error.retry_after_s)
        self._failures += 1
        log.warning("event_not_written", about=_about(event), reason=str(error), retry_s=round(pause_s, 2))
        return pause_s

    def _reject(self, event: KubeEvent, error: ApiError) -> None:
        """Drop an event. A missing right is a warning once, until an event is written again.

        A namespace that terminates rejects all new objects, which is neither a missing right nor a problem.
        """
        self._metrics.dropped()
        terminating = error.reason == _TERMINATING
        forbidden = error.status == HTTPStatus.FORBIDDEN and not terminating
        quiet = terminating or (forbidden and self._forbidden)
        (log.info if quiet else log.warning)(
            "event_dropped", about=_about(event), text=event.text, reason=str(error)
        )
        if forbidden and not self._forbidden:
            log.warning("degraded_mode", right="events", effect="no events are written", reason=str(error))
            self._metrics.forbidden(forbidden=True)
            self._forbidden = True


async def _made(event: KubeEvent) -> KubeEvent:
    return event


def _about(event: KubeEvent) -> str:
    return f"{event.namespace}/{event.name}" if event.namespace else event.name
