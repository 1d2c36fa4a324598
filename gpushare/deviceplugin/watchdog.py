"""Whether the agent's own jobs go on: none may end, and no piece of work may take for ever.

The process lives and answers probes while one of its jobs hangs, in a write to a dead disk for
example. Only a restart helps then, which the kubelet makes once ``/healthz`` fails.
"""

import asyncio
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from gpushare.deviceplugin.metrics import PluginMetrics

log = structlog.get_logger()

_LOOK_S: Final = 1.0


class Watchdog:
    """Jobs by name, with what is under way in them."""

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics
        self._jobs: set[str] = set()
        self._ended: set[str] = set()
        self._due: dict[object, tuple[str, float]] = {}
        self._told: frozenset[str] = frozenset()

    async def keep(self, job: str, work: Awaitable[None]) -> None:
        """Carry out a job that ends only when it is cancelled; its errors are the caller's."""
        self._jobs.add(job)
        await work
        self._ended.add(job)

    @contextmanager
    def work(self, job: str, within_s: float) -> Iterator[None]:
        """Around a piece of work that is stuck where it takes longer."""
        self._jobs.add(job)
        token = object()
        self._due[token] = job, time.monotonic() + within_s
        try:
            yield
        finally:
            del self._due[token]

    @property
    def stuck(self) -> frozenset[str]:
        """The jobs that have ended or do not get on."""
        now = time.monotonic()
        return frozenset(self._ended.union(job for job, due in self._due.values() if due < now))

    def trouble(self) -> str | None:
        """What ``/healthz`` says; None where all is well."""
        stuck = self.stuck
        return f"stuck: {', '.join(sorted(stuck))}" if stuck else None

    async def run(self) -> None:
        """Show it in the metrics and tell of each change, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def look(self) -> None:
        """One look at all jobs."""
        before, self._told = self._told, self.stuck
        for job in self._jobs:
            self._metrics.stuck.labels(job).set(int(job in self._told))
        for job in self._told - before:
            log.error("job_stuck", job=job)
        for job in before - self._told:
            log.warning("job_goes_on", job=job)
