"""Sources of values: scrapes of the exporters, or Prometheus."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import structlog

from gpushare.adapters.pages import Pages
from gpushare.errors import InvalidRequest, SourceError
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.promql import promql, values_of
from gpushare.metricsapi.queries import DEFINITIONS, MetricQuery, MetricValue, is_time
from gpushare.metricsapi.values import ExporterReadings
from gpushare.monitoring.catalogue import SNAPSHOT_AT
from gpushare.monitoring.page import MetricSample, samples
from gpushare.runtime.cache import FetchCache

log = structlog.get_logger()

_WANTED: Final = frozenset(
    [SNAPSHOT_AT.name, *(metric.name for definition in DEFINITIONS.values() for metric in definition.sources)]
)
_MOST_AT_ONCE: Final = 32


class ValueSource(Protocol):
    """Provides values for queries."""

    async def values(self, query: MetricQuery) -> Mapping[str, MetricValue]:
        """Return values by object name. Raises SourceError if the source fails."""


class Exporters:
    """Scrapes all exporters on demand and caches the readings for some seconds.

    If one fails, the values of its node are missing; an HPA then makes the most conservative change.
    """

    def __init__(
        self, pages: Pages, find: Callable[[], Sequence[str]], metrics: ApiMetrics, *, keep_s: float
    ) -> None:
        self._pages = pages
        self._find = find
        self._metrics = metrics
        self._gate = asyncio.Semaphore(_MOST_AT_ONCE)
        self._recent: FetchCache[None, ExporterReadings] = FetchCache(lambda _: self._scrape_all(), keep_s)
        self._down: frozenset[str] = frozenset()

    async def values(self, query: MetricQuery) -> Mapping[str, MetricValue]:
        """Return values from the last scrape."""
        return (await self._recent.get(None)).values(query)

    async def _scrape_all(self) -> ExporterReadings:
        urls = self._find()
        if not urls:
            raise SourceError(
                "no pod of the exporter runs: check --exporter-namespace and --exporter-selector"
            )
        read = await asyncio.gather(*map(self._scrape, urls), return_exceptions=True)
        readings, problems = ExporterReadings(), {}
        for url, page in zip(urls, read, strict=True):
            if isinstance(page, SourceError):
                problems[url] = page
            elif isinstance(page, BaseException):
                raise page
            else:
                readings.add(page, _read_at(page))
        self._log_down(problems)
        if len(problems) == len(urls):
            raise SourceError(f"no exporter responds; {next(iter(problems.values()))}")
        return readings

    async def _scrape(self, url: str) -> list[MetricSample]:
        async with self._gate:
            with self._metrics.source_read():
                page = await self._pages.get(url)
                try:
                    # In a thread, so that other requests are not blocked.
                    return await asyncio.to_thread(_samples, page)
                except (InvalidRequest, UnicodeDecodeError) as error:
                    raise SourceError(f"{url}: {error}") from error

    def _log_down(self, problems: Mapping[str, SourceError]) -> None:
        for url in problems.keys() - self._down:
            log.warning("exporter_down", url=url, reason=str(problems[url]))
        self._down = frozenset(problems)


def _samples(page: bytes) -> list[MetricSample]:
    return list(samples(page.decode(), _WANTED))


def _read_at(page: Iterable[MetricSample]) -> float:
    """Return the time of the exporter's snapshot, else the current time."""
    times = (each.number for each in page if each.metric == SNAPSHOT_AT.name)
    return next(filter(is_time, times), time.time())


class Prometheus:
    """Queries Prometheus and caches the responses for some seconds."""

    def __init__(self, pages: Pages, url: str, metrics: ApiMetrics, *, keep_s: float) -> None:
        self._pages = pages
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._metrics = metrics
        self._recent: FetchCache[str, bytes] = FetchCache(self._query, keep_s)

    async def values(self, query: MetricQuery) -> Mapping[str, MetricValue]:
        """Return values from Prometheus."""
        return values_of(await self._recent.get(promql(query)), query)

    async def _query(self, text: str) -> bytes:
        with self._metrics.source_read():
            return await self._pages.post(self._url, {"query": text})
