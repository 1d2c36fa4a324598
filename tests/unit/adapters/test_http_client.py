"""Pages of exporters and Prometheus through the proxy of the environment, or without one."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web

from gpushare.adapters.http_client import HttpClient
from gpushare.errors import ConfigError

pytestmark = pytest.mark.asyncio

PAGE = "http://prometheus.test:9090/api"


@pytest_asyncio.fixture
async def server() -> AsyncIterator[str]:
    """A server that answers with the target of the request, which for a proxy is a URL."""

    async def target(request: web.Request) -> web.Response:
        return web.Response(text=request.raw_path)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", target)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_a_page_comes_through_the_proxy_of_the_environment(server: str) -> None:
    async with HttpClient(timeout_s=5, environ={"HTTP_PROXY": server}) as pages:
        assert (await pages.get(PAGE)).decode() == PAGE
        assert (await pages.post(PAGE, {"a": "b"})).decode() == PAGE


async def test_a_page_that_needs_no_proxy_comes_directly(server: str) -> None:
    async with HttpClient(timeout_s=5, environ={"HTTP_PROXY": "http://proxy.test:1"}) as pages:
        assert await pages.get(f"{server}/page") == b"/page"


async def test_without_an_environment_there_is_no_proxy(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.test:1")
    async with HttpClient(timeout_s=5) as pages:
        assert await pages.get(f"{server}/page") == b"/page"


async def test_a_proxy_that_cannot_be_used_is_named() -> None:
    async with HttpClient(timeout_s=5, environ={"HTTP_PROXY": "socks5://proxy.test"}) as pages:
        with pytest.raises(ConfigError, match="HTTP_PROXY is not like http://host:3128"):
            await pages.get(PAGE)
