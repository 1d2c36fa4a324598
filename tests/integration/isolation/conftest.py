"""Clusters, the library and an image for nodes with enforcement; each module has its node.

What belongs here: shared fixtures. What does not: nodes and their modes.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from testbed import Bed
from tests.support.fixtures import enforced_nodes
from tests.support.fixtures.gpu_nodes import GpuBed, gpu_bed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpus() -> AsyncIterator[GpuBed]:
    async with gpu_bed() as found:
        yield found


@pytest.fixture(scope="module")
def bed(gpus: GpuBed) -> Bed:
    return gpus.bed


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return enforced_nodes.library(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return enforced_nodes.image(tmp_path_factory.mktemp("image"))
