from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from aiohttp import web

from tests.unit.cli.fakes import Api, kubeconfig


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    server = Api()
    runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    server.kubeconfig = kubeconfig(tmp_path, server.url)
    yield server
    await runner.cleanup()
