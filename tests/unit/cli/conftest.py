from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.unit.cli.fakes import Api, kubeconfig, served


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    server = Api()
    async with served(server.application()) as server.url:
        server.kubeconfig = kubeconfig(tmp_path, server.url)
        yield server
