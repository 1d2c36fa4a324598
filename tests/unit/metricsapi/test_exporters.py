"""Exporters over real HTTP: requests, and missing answers."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from gpushare.adapters.http_client import HttpClient
from gpushare.errors import SourceError
from gpushare.metricsapi.exporters import Exporters
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.queries import DEFINITIONS, MetricQuery, MetricValue, ObjectKind
from tests.support.waiting import until

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
async def site(timeout_s: float = 5) -> AsyncIterator[tuple[Site, HttpClient]]:
    made = Site()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with HttpClient(timeout_s=timeout_s) as pages:
            yield made, pages
    finally:
        await runner.cleanup()


def exporters(
    made: Site, pages: HttpClient, metrics: ApiMetrics | None = None, *, keep_s: float = 60
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
    # The other one must respond in time on a busy machine too.
    async with site(timeout_s=5 if broken else 2) as (made, pages):
        made.pages = {"/n": page("p", 23), "/m": broken}
        metrics = ApiMetrics()
        with capture_logs() as logs:
            assert set(await exporters(made, pages, metrics).values(QUERY)) == {"p"}
        assert [each["url"] for each in logs] == [f"{made.url}/m"]
        count = metrics.registry.get_sample_value
        for result in ("ok", "error"):
            assert count("gpushare_metrics_api_scrapes_total", {"result": result}) == 1


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakePages:
    """A FAKE of the client: one page for all exporters, except those that do not answer, or only begin to."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.stuck: set[str] = set()
        self.down: set[str] = set()
        self.held: dict[str, asyncio.Event] = {}
        self.asked: list[str] = []
        self.reading = self.most_read = 0

    @asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[Callable[[], Awaitable[bytes]]]:
        self.asked.append(url)
        if url in self.silent:
            await asyncio.Event().wait()
        if url in self.held:
            await self.held[url].wait()
        if url in self.down:
            raise SourceError(f"{url}: no answer in time")
        yield partial(self.body, url)

    async def body(self, url: str) -> bytes:
        self.reading += 1
        self.most_read = max(self.most_read, self.reading)
        try:
            await (asyncio.Event().wait() if url in self.stuck else asyncio.sleep(0))
        finally:
            self.reading -= 1
        return page(url, 1).encode()

    def again(self) -> list[str]:
        """Which exporters were asked since the last call."""
        asked, self.asked = self.asked, []
        return asked


def fake_exporters(pages: FakePages, urls: list[str], clock: Clock | None = None) -> Exporters:
    return Exporters(cast("HttpClient", pages), lambda: urls, ApiMetrics(), keep_s=1, clock=clock or Clock())


async def test_a_live_exporter_is_asked_while_hundreds_do_not_answer() -> None:
    pages = FakePages()
    pages.silent = {f"dead{number}" for number in range(200)}
    scrape = asyncio.create_task(fake_exporters(pages, [*sorted(pages.silent), "live"]).values(QUERY))
    await until(lambda: "live" in pages.asked)
    scrape.cancel()


async def test_few_of_many_pages_are_in_memory_at_once() -> None:
    pages = FakePages()
    assert len(await fake_exporters(pages, [f"n{number}" for number in range(200)]).values(QUERY)) == 200
    assert pages.most_read == 32


async def test_a_scrape_ends_although_an_exporter_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpushare.metricsapi.exporters._ROUND_S", 0.05)
    pages = FakePages()
    pages.silent, pages.stuck = {"silent"}, {"stuck"}
    assert set(await fake_exporters(pages, ["silent", "stuck", "live"]).values(QUERY)) == {"live"}
    await until(lambda: not pages.reading)


async def test_an_exporter_that_fails_is_asked_after_pauses_that_double_up_to_a_minute() -> None:
    pages, clock = FakePages(), Clock()
    pages.down = {"dead"}
    source = fake_exporters(pages, ["dead", "live"], clock)
    asked_at = []
    for _ in range(200):
        assert set(await source.values(QUERY)) == {"live"}
        if "dead" in pages.again():
            asked_at.append(clock.now - 1000)
        clock.now += 1
    assert asked_at == [0, 5, 15, 35, 75, 135, 195]


async def test_the_warning_about_an_exporter_is_logged_once_until_it_responds() -> None:
    pages, clock = FakePages(), Clock()
    source = fake_exporters(pages, ["n", "live"], clock)
    with capture_logs() as logs:
        for down in ({"n"}, {"n"}, set[str](), {"n"}):
            pages.down = down
            await source.values(QUERY)
            clock.now += 60
    assert [each["event"] for each in logs] == ["exporter_down"] * 2


async def test_an_exporter_that_responds_again_has_its_values_at_once() -> None:
    pages, clock = FakePages(), Clock()
    pages.down = {"n"}
    source = fake_exporters(pages, ["n"], clock)
    with pytest.raises(SourceError, match="no exporter responds; n: no answer in time"):
        await source.values(QUERY)
    pages.down.clear()
    clock.now += 5
    assert set(await source.values(QUERY)) == {"n"}
    clock.now += 1
    assert set(await source.values(QUERY)) == {"n"}


async def test_no_scrape_waits_for_an_exporter_that_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpushare.metricsapi.exporters._RETRY_S", 0.01)
    pages, clock = FakePages(), Clock()
    pages.down = {f"n{number}" for number in range(500)}
    source = fake_exporters(pages, [*sorted(pages.down), "live"], clock)
    await source.values(QUERY)
    pages.silent, pages.down = pages.down, set()
    for _ in range(3):
        clock.now += 5
        pages.again()
        assert set(await source.values(QUERY)) == {"live"}
    assert pages.again() == ["live"]  # the retries before have not ended, and are not repeated


async def test_a_scrape_of_an_exporter_that_is_gone_has_no_values() -> None:
    pages, clock, urls = FakePages(), Clock(), ["n", "live"]
    pages.down = {"n"}
    source = fake_exporters(pages, urls, clock)
    await source.values(QUERY)
    pages.down, pages.held = set(), {"n": asyncio.Event()}
    clock.now += 5
    assert set(await source.values(QUERY)) == {"live"}
    urls.remove("n")
    pages.held["n"].set()
    clock.now += 1
    assert set(await source.values(QUERY)) == {"live"}


async def test_an_exporter_that_is_gone_is_forgotten() -> None:
    pages, clock, urls = FakePages(), Clock(), ["n", "live"]
    pages.down = {"n"}
    source = fake_exporters(pages, urls, clock)
    await source.values(QUERY)
    urls.remove("n")
    clock.now += 1
    await source.values(QUERY)
    urls.append("n")
    clock.now += 1
    pages.again()
    await source.values(QUERY)
    assert "n" in pages.asked


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
