"""Events for users: written in the background, slowly, and never at the cost of a bind.

Pods that the scheduler could not place get the reason by card; it is worked out only when its turn
to be written comes, and only once per pod and text in a while.
"""

import asyncio
import time
from collections import deque
from http import HTTPStatus
from typing import Final

import structlog

from gpushare.contract import EVENT_MALFORMED, EVENT_REFUSED
from gpushare.errors import ApiError
from gpushare.extender.cluster import Cluster
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.verbs import pod_request_of
from gpushare.model.demand import Malformed
from gpushare.model.objects import Pod
from gpushare.ports import Event, KubeApi, pod_event
from gpushare.scheduling.inspection import explain

log = structlog.get_logger()

_QUEUE_SIZE: Final = 10_000
_REPEAT_AFTER_S: Final = 60.0
_BACKLOG: Final = 100
_STORM_FACTOR: Final = 10


class EventQueue:
    """A bounded queue of events with one writer."""

    def __init__(
        self, cluster: Cluster, api: KubeApi, metrics: ExtenderMetrics, *, per_second: float
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._metrics = metrics
        self._pause_s = 1 / per_second
        self._queue: deque[Event | str] = deque()
        self._filled = asyncio.Event()
        self._asked: set[str] = set()
        self._said: dict[str, tuple[str, float]] = {}
        self._muted = False
        self._pushed_at = 0.0

    def write(self, note: Event) -> None:
        """Queue an event; the oldest gives way where the queue is full."""
        self._push(note)

    def explain(self, pod: Pod) -> None:
        """Queue the reason why a pending pod fits nowhere."""
        if pod.node is None and pod.unschedulable is not None and pod.uid not in self._asked:
            self._asked.add(pod.uid)
            self._push(pod.uid)

    def forget(self, uid: str) -> None:
        """The pod is placed or gone."""
        self._said.pop(uid, None)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._filled.wait()
            try:
                note = self._next()
            except Exception:  # a defect in an explanation must cost one event, not the daemon
                log.exception("explanation_crashed")
                continue
            if note is not None:
                await self._send(note)
                await asyncio.sleep(self._pause_s * (_STORM_FACTOR if self._storm() else 1))

    def _storm(self) -> bool:
        """Whether pods are being placed faster than told: then the API server has better to do."""
        return len(self._queue) > _BACKLOG and time.monotonic() - self._pushed_at < 1

    def _push(self, item: Event | str) -> None:
        if len(self._queue) >= _QUEUE_SIZE:
            self._drop(self._queue.popleft())
        self._queue.append(item)
        self._pushed_at = time.monotonic()
        self._filled.set()

    def _drop(self, item: Event | str) -> None:
        self._metrics.events_dropped.inc()
        if isinstance(item, str):
            self._asked.discard(item)

    def _next(self) -> Event | None:
        item = self._queue.popleft()
        if not self._queue:
            self._filled.clear()
        if isinstance(item, Event):
            return item
        self._asked.discard(item)
        return self._explanation(item)

    def _explanation(self, uid: str) -> Event | None:
        pod = self._cluster.pods.get(uid)
        if pod is None or pod.node is not None or self._cluster.ledger.reservation(uid) is not None:
            return None
        if isinstance(pod.demand, Malformed):
            return self._once(pod, EVENT_MALFORMED, pod.demand.problem)
        text = explain(self._cluster.ledger, pod_request_of(pod))
        return self._once(pod, EVENT_REFUSED, text) if text else None

    def _once(self, pod: Pod, reason: str, text: str) -> Event | None:
        said, at = self._said.get(pod.uid, ("", 0.0))
        now = time.monotonic()
        if said == text and now - at < _REPEAT_AFTER_S:
            return None
        self._said[pod.uid] = (text, now)
        return pod_event(pod, reason, text, warning=True)

    async def _send(self, note: Event) -> None:
        try:
            await self._api.note(note)
            self._unmute()
        except ApiError as error:
            self._metrics.events_dropped.inc()
            if error.status == HTTPStatus.FORBIDDEN and not self._muted:
                log.warning(
                    "reduced_mode",
                    right="events",
                    effect="placements are not told in events",
                    reason=str(error),
                )
                self._muted = True
                self._metrics.reduced.labels("events").set(1)
            elif error.status != HTTPStatus.FORBIDDEN:
                log.warning("event_not_written", pod=f"{note.namespace}/{note.name}", reason=str(error))

    def _unmute(self) -> None:
        if self._muted:
            self._muted = False
            self._metrics.reduced.labels("events").set(0)
