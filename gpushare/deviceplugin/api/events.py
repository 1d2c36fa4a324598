"""Events of the agent: written in the background, slowly, in their order.

While the API server is away they wait; what it refuses clearly is dropped and logged.
"""

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Final

import structlog

from gpushare.deviceplugin.api.backoff import Backoff, BackoffPolicy
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.errors import ApiError
from gpushare.ports import Event, NodeApi

log = structlog.get_logger()

_QUEUE_SIZE: Final = 1000
_KEY: Final = "events"


class EventRecorder:
    """A bounded queue of events with one writer; where it is full the oldest gives way."""

    def __init__(
        self, api: NodeApi, metrics: PluginMetrics, pace: BackoffPolicy, *, per_second: float = 5.0
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._pause_s = 1 / per_second
        self._patience = Backoff(pace)
        self._queue: deque[Event] = deque(maxlen=_QUEUE_SIZE)
        self._filled = asyncio.Event()
        self._forbidden = False

    def write(self, note: Event) -> None:
        """Queue an event, unless the same one waits already."""
        if note not in self._queue:
            self._queue.append(note)
            self._filled.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._filled.wait()
            pause_s = await self._send(self._queue[0])
            await asyncio.sleep(pause_s)

    async def _send(self, note: Event) -> float:
        """Returns the seconds until the next event may be written."""
        try:
            await self._api.note(note)
        except ApiError as error:
            self._metrics.writes.labels(_KEY, "error").inc()
            self._tell(note, error)
            if not error.clear:
                return self._patience.failed(_KEY, error)
        else:
            self._metrics.writes.labels(_KEY, "ok").inc()
            self._metrics.reduced.labels(_KEY).set(0)
            self._forbidden = False
            self._patience.succeeded(_KEY)
        self._drop(note)
        return self._pause_s

    def _tell(self, note: Event, error: ApiError) -> None:
        """A missing right is told once: what the events say is in the log by itself."""
        if error.status != HTTPStatus.FORBIDDEN:
            log.warning("event_not_written", about=note.name, text=note.text, reason=str(error))
        elif not self._forbidden:
            log.warning("reduced_mode", right=_KEY, effect="no events", reason=str(error))
            self._metrics.reduced.labels(_KEY).set(1)
            self._forbidden = True

    def _drop(self, note: Event) -> None:
        """The event is done with, unless the queue was full and it has given way meanwhile."""
        if self._queue and self._queue[0] is note:
            self._queue.popleft()
        if not self._queue:
            self._filled.clear()
