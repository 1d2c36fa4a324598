"""Values of metrics, from scrapes of the exporters."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from gpushare.adapters.http_client import HttpClient
from gpushare.errors import InvalidRequest, SourceError
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.queries import DEFINITIONS, MetricQuery, MetricValue, is_time
from gpushare.metricsapi.values import ExporterReadings
from gpushare.monitoring.catalogue import SNAPSHOT_AT
from gpushare.monitoring.page import MetricSample, samples
from gpushare.runtime.cache import FetchCache

log = structlog.get_logger()

_WANTED: Final = frozenset(
    [SNAPSHOT_AT.name, *(metric.name for definition in DEFINITIONS.values() for metric in definition.sources)]
)
_MOST_ASKED: Final = 256
"""Exporters that are asked at once. One on a node without power takes two seconds."""
_MOST_RETRIED: Final = 128
"""Exporters that have failed, in addition."""
MOST_CONNECTIONS: Final = _MOST_ASKED + _MOST_RETRIED
_MOST_READ: Final = 32
"""Pages in memory at once, of those that are asked."""
_ROUND_S: Final = 30.0
"""For the scrape of all exporters. The API server gives up a request after 60 s."""
_RETRY_S: Final = 0.25
"""A scrape waits so long for exporters that did not respond before."""
_FIRST_PAUSE_S: Final = 5.0
_LAST_PAUSE_S: Final = 60.0
"""Between two attempts to scrape such an exporter."""

_Scrape = asyncio.Task[list[MetricSample] | None]
"""Ends with the page of an exporter, or with None."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why an exporter did not respond, and when it is asked again."""

    error: SourceError
    pause_s: float
    until: float


class Exporters:
    """Scrapes all exporters on demand and caches the readings for some seconds.

    If one fails, the values of its node are missing; an HPA then makes the most conservative change. It is
    asked again after a pause, which doubles, and no scrape waits for it until it has responded.
    """

    def __init__(
        self,
        pages: HttpClient,
        find: Callable[[], Sequence[str]],
        metrics: ApiMetrics,
        *,
        keep_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pages = pages
        self._find = find
        self._metrics = metrics
        self._clock = clock
        self._asking = asyncio.Semaphore(_MOST_ASKED)
        self._retrying = asyncio.Semaphore(_MOST_RETRIED)
        self._reading = asyncio.Semaphore(_MOST_READ)
        self._recent: FetchCache[None, ExporterReadings] = FetchCache(
            lambda _: self._scrape_all(), keep_s, clock
        )
        self._failures: dict[str, _Failure] = {}
        self._retries: dict[str, _Scrape] = {}

    async def values(self, query: MetricQuery) -> Mapping[str, MetricValue]:
        """Return values by object name, from the last scrape. Raises SourceError if no exporter responds."""
        return (await self._recent.get(None)).values(query)

    async def _scrape_all(self) -> ExporterReadings:
        urls = self._find()
        if not urls:
            raise SourceError(
                "no pod of the exporter runs: check --exporter-namespace and --exporter-selector"
            )
        self._failures = {url: self._failures[url] for url in urls if url in self._failures}
        readings = ExporterReadings()
        pages = await self._pages_of(urls)
        for page in pages:
            readings.add(page, _read_at(page))
        if not pages:
            reason = next((each.error for each in self._failures.values()), "no answer in time")
            raise SourceError(f"no exporter responds; {reason}")
        return readings

    async def _pages_of(self, urls: Sequence[str]) -> list[list[MetricSample]]:
        """The pages of the exporters that respond in time."""
        # Started before the others, so that they have the whole scrape to answer.
        retries = self._due()
        scrapes = [
            asyncio.create_task(self._scrape(url, self._asking)) for url in urls if url not in self._failures
        ]
        try:
            return await _in_time(scrapes, _ROUND_S) + await _in_time(retries, _RETRY_S)
        finally:
            # Retries go on: a slow exporter may be part of a later scrape.
            for scrape in scrapes:
                scrape.cancel()

    def _due(self) -> list[_Scrape]:
        """The scrapes of exporters whose pause is over: those that go on, and others, which are started."""
        now = self._clock()
        for url, failure in self._failures.items():
            if failure.until <= now and url not in self._retries:
                self._retries[url] = asyncio.create_task(self._retry(url))
        return [retry for url, retry in self._retries.items() if url in self._failures]

    async def _retry(self, url: str) -> list[MetricSample] | None:
        try:
            return await self._scrape(url, self._retrying)
        finally:
            del self._retries[url]

    async def _scrape(self, url: str, turn: asyncio.Semaphore) -> list[MetricSample] | None:
        """None if the exporter fails, which is remembered."""
        try:
            async with turn:
                page = await self._read(url)
        except SourceError as error:
            self._fail(url, error)
            return None
        self._failures.pop(url, None)
        return page

    async def _read(self, url: str) -> list[MetricSample]:
        with self._metrics.scrape():
            async with self._pages.opened(url) as body, self._reading:
                page = await body()
                try:
                    # In a thread, so that other requests are not blocked.
                    return await asyncio.to_thread(_samples, page)
                except (InvalidRequest, UnicodeDecodeError) as error:
                    raise SourceError(f"{url}: {error}") from error

    def _fail(self, url: str, error: SourceError) -> None:
        before = self._failures.get(url)
        if before is None:
            log.warning("exporter_down", url=url, reason=str(error))
        pause_s = min(2 * before.pause_s, _LAST_PAUSE_S) if before else _FIRST_PAUSE_S
        self._failures[url] = _Failure(error, pause_s, self._clock() + pause_s)


async def _in_time(scrapes: Collection[_Scrape], within_s: float) -> list[list[MetricSample]]:
    """The pages of those that have ended well after so many seconds."""
    if not scrapes:
        return []
    done, _ = await asyncio.wait(scrapes, timeout=within_s)
    return [page for page in (each.result() for each in done) if page is not None]


def _samples(page: bytes) -> list[MetricSample]:
    return list(samples(page.decode(), _WANTED))


def _read_at(page: Iterable[MetricSample]) -> float:
    """Return the time of the exporter's snapshot, else the current time."""
    times = (each.number for each in page if each.metric == SNAPSHOT_AT.name)
    return next(filter(is_time, times), time.time())
