"""What the exporters of some nodes report of one namespace, read when it is asked for.

A request costs by the nodes of its pods, not by the cluster: only their exporters are read, and each at most
once in some seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

from gpushare.errors import InvalidRequest, SourceError
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.monitoring.catalogue import SOURCE_UP
from gpushare.monitoring.page import MetricSample, samples
from gpushare.overview.pod_usage import SERIES, PodGpus, gpus_by_container
from gpushare.runtime.cache import FetchCache

_CONCURRENCY: Final = 32
_ROUND_S: Final = 6.0
"""For the exporters of one request. One that answers later is part of the next one."""

PageOf = Callable[[str], Awaitable[bytes]]
"""Reads the page at a URL. Raises SourceError."""


class NodePages:
    """``urls`` returns the URL of the exporter's page by node."""

    def __init__(
        self,
        page_of: PageOf,
        urls: Callable[[], Mapping[str, str]],
        metrics: ApiMetrics,
        *,
        keep_s: float,
    ) -> None:
        self._page_of = page_of
        self._metrics = metrics
        self._urls = urls
        self._turns = asyncio.Semaphore(_CONCURRENCY)
        self._pages: FetchCache[str, Sequence[MetricSample]] = FetchCache(self._read, keep_s)

    async def of(self, nodes: Collection[str], namespace: str) -> dict[str, PodGpus]:
        """The GPUs of the namespace's containers by node, for the nodes whose exporter answers."""
        urls = self._urls() if nodes else {}
        reads = {name: asyncio.ensure_future(self._pages.get(urls[name])) for name in nodes if name in urls}
        if reads:
            await asyncio.wait(reads.values(), timeout=_ROUND_S)
        found: dict[str, PodGpus] = {}
        for name, read in reads.items():
            if read.done() and not read.cancelled() and read.exception() is None:
                found[name] = gpus_by_container(read.result(), namespace)
                await asyncio.sleep(0)
            else:
                read.cancel()  # of this request only; the cache goes on
        return found

    async def _read(self, url: str) -> Sequence[MetricSample]:
        async with self._turns:
            with self._metrics.scrape():
                return await self._samples(url)

    async def _samples(self, url: str) -> Sequence[MetricSample]:
        page = await self._page_of(url)
        try:
            # In a thread, so that other requests are not blocked.
            read = await asyncio.to_thread(_parsed, page)
        except (InvalidRequest, UnicodeDecodeError) as error:
            raise SourceError(f"{url}: {error}") from error
        if not any(each.metric == SOURCE_UP.name for each in read):
            raise SourceError(f"{url}: this is not the metrics page of an exporter")
        return read


def _parsed(page: bytes) -> list[MetricSample]:
    return list(samples(page.decode(), SERIES))
