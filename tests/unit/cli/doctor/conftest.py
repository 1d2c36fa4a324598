from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from aiohttp import web

from tests.unit.cli.doctor.fakes import Cluster
from tests.unit.cli.fakes import kubeconfig


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    found = Cluster()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    found.api.kubeconfig = kubeconfig(tmp_path, f"http://{host}:{port}")
    yield found
    await runner.cleanup()
