"""Detects jobs of the agent that have ended or are stuck.

A job can hang while the process still answers probes, for example in a write to a dead disk. ``/healthz``
fails then, and the kubelet restarts the agent.
"""

import asyncio
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from gpushare.deviceplugin.metrics import PluginMetrics

log = structlog.get_logger()

_CHECK_S: Final = 1.0


class Watchdog:
    """Jobs by name and their work in progress."""

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics
        self._jobs: set[str] = set()
        self._ended: set[str] = set()
        self._due: dict[object, tuple[str, float]] = {}
        self._reported: frozenset[str] = frozenset()

    async def run_job(self, job: str, work: Awaitable[None]) -> None:
        """Run a job that must not end before it is cancelled; its errors are raised."""
        self._jobs.add(job)
        await work
        self._ended.add(job)

    @contextmanager
    def work(self, job: str, within_s: float) -> Iterator[None]:
        """Context of one piece of work; the job counts as stuck if it takes longer than ``within_s``."""
        self._jobs.add(job)
        token = object()
        self._due[token] = job, time.monotonic() + within_s
        try:
            yield
        finally:
            del self._due[token]

    @property
    def stuck(self) -> frozenset[str]:
        """The jobs that have ended or are stuck."""
        now = time.monotonic()
        return frozenset(self._ended.union(job for job, due in self._due.values() if due < now))

    def problem(self) -> str | None:
        """The error that ``/healthz`` returns; None if all jobs are healthy."""
        stuck = self.stuck
        return f"stuck: {', '.join(sorted(stuck))}" if stuck else None

    async def run(self) -> None:
        """Update the metrics and log changes until cancelled."""
        while True:
            self.check()
            await asyncio.sleep(_CHECK_S)

    def check(self) -> None:
        """Check all jobs once."""
        before, self._reported = self._reported, self.stuck
        for job in self._jobs:
            self._metrics.stuck.labels(job).set(int(job in self._reported))
        for job in self._reported - before:
            log.error("job_stuck", job=job)
        for job in before - self._reported:
            log.warning("job_recovered", job=job)
