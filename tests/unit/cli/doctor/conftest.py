from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from aiohttp import web

from tests.unit.cli.doctor.fakes import Cluster
from tests.unit.cli.fakes import kubeconfig, served


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    found = Cluster()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.answer)
    async with served(application) as url:
        found.api.kubeconfig = kubeconfig(tmp_path, url)
        yield found
