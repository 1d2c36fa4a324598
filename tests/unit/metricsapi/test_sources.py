"""Exporters and Prometheus over real HTTP: requests, and missing answers."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from gpushare.adapters.pages import Pages
from gpushare.errors import SourceError
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.queries import DEFINITIONS, MetricQuery, MetricValue, ObjectKind
from gpushare.metricsapi.sources import Exporters, Prometheus

SM = "DCGM_CUSTOM_PROCESS_SM_UTIL"
QUERY = MetricQuery(DEFINITIONS[SM], ObjectKind.PODS, "a")


def page(pod: str, number: float, at: float = 100) -> str:
    labels = f'NodeName="n",NamespaceName="a",PodName="{pod}"'
    return f"{SM}{{{labels}}} {number}\ngpushare_exporter_snapshot_timestamp_seconds {at}\n"


class Site:
    """An HTTP server with pages by path; a page of None is never sent."""

    def __init__(self) -> None:
        self.pages: dict[str, str | int | None] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.asked.append((request.path, form))
        found = self.pages[request.path]
        if found is None:
            await asyncio.Event().wait()
        return web.Response(status=found) if isinstance(found, int) else web.Response(text=found)


@asynccontextmanager
async def site(timeout_s: float = 5) -> AsyncIterator[tuple[Site, Pages]]:
    made = Site()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with Pages(timeout_s=timeout_s) as pages:
            yield made, pages
    finally:
        await runner.cleanup()


def exporters(
    made: Site, pages: Pages, metrics: ApiMetrics | None = None, *, keep_s: float = 60
) -> Exporters:
    find = lambda: [f"{made.url}{path}" for path in made.pages]  # noqa: E731 - asked each time
    return Exporters(pages, find, metrics or ApiMetrics(), keep_s=keep_s)


async def test_all_exporters_are_scraped_once_for_many_queries() -> None:
    async with site() as (made, pages):
        made.pages = {"/n": page("p", 23), "/m": page("q", 0, at=90)}
        source = exporters(made, pages)
        for _ in range(3):
            assert await source.values(QUERY) == {"p": MetricValue(23, 100), "q": MetricValue(0, 90)}
        assert len(made.asked) == 2


async def test_cached_values_expire() -> None:
    async with site() as (made, pages):
        made.pages = {"/n": page("p", 23)}
        source = exporters(made, pages, keep_s=0)
        await source.values(QUERY)
        made.pages = {"/n": page("p", 7)}
        assert (await source.values(QUERY))["p"].number == 7


@pytest.mark.parametrize("broken", [503, None, f"{SM}{{}} one"])
async def test_an_exporter_that_does_not_respond_loses_its_values_only(broken: str | int | None) -> None:
    async with site(timeout_s=0.2) as (made, pages):
        made.pages = {"/n": page("p", 23), "/m": broken}
        metrics = ApiMetrics()
        with capture_logs() as logs:
            assert set(await exporters(made, pages, metrics).values(QUERY)) == {"p"}
        assert [each["url"] for each in logs] == [f"{made.url}/m"]
        count = metrics.registry.get_sample_value
        for result in ("ok", "error"):
            assert count("gpushare_metrics_api_source_reads_total", {"result": result}) == 1


async def test_it_is_an_error_if_no_exporter_responds() -> None:
    async with site() as (made, pages):
        made.pages = {"/n": 503}
        with pytest.raises(SourceError, match=r"no exporter responds; .*/n: HTTP 503"):
            await exporters(made, pages).values(QUERY)


async def test_the_error_for_missing_exporters_has_the_remedy() -> None:
    async with site() as (made, pages):
        with pytest.raises(SourceError, match="--exporter-namespace and --exporter-selector"):
            await exporters(made, pages).values(QUERY)


async def test_samples_of_an_exporter_without_a_timestamp_are_fresh() -> None:
    async with site() as (made, pages):
        made.pages = {"/n": page("p", 1).partition("\n")[0]}
        assert time.time() - (await exporters(made, pages).values(QUERY))["p"].at < 5


@pytest.mark.parametrize("at", ["NaN", "+Inf", "1e300", "-1e300"])
async def test_samples_of_an_exporter_with_an_impossible_timestamp_are_fresh(at: str) -> None:
    async with site() as (made, pages):
        made.pages = {"/n": page("p", 1, at=float(at))}
        assert time.time() - (await exporters(made, pages).values(QUERY))["p"].at < 5


async def test_a_query_to_prometheus_is_cached() -> None:
    async with site() as (made, pages):
        made.pages = {
            "/prom/api/v1/query": '{"status":"success","data":{"resultType":"vector","result":'
            '[{"metric":{"PodName":"p"},"value":[100,"23"]}]}}'
        }
        source = Prometheus(pages, f"{made.url}/prom/", ApiMetrics(), keep_s=60)
        for _ in range(2):
            assert await source.values(QUERY) == {"p": MetricValue(23, 100)}
        query = 'avg(DCGM_CUSTOM_PROCESS_SM_UTIL{NamespaceName="a",PodName!=""}) by (PodName)'
        assert made.asked == [("/prom/api/v1/query", {"query": query})]


async def test_an_unavailable_prometheus_is_an_error() -> None:
    async with site() as (_, pages):
        with pytest.raises(SourceError, match=r"http://127\.0\.0\.1:1/api/v1/query: "):
            await Prometheus(pages, "http://127.0.0.1:1", ApiMetrics(), keep_s=60).values(QUERY)


async def test_a_client_that_is_not_open_raises_an_error() -> None:
    with pytest.raises(SourceError, match="not open"):
        await Pages(timeout_s=1).get("http://127.0.0.1:1")
