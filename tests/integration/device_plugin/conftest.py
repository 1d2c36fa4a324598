"""One cluster and one node for all fault tests of the agent; each test restores the node.

What belongs here: shared fixtures. What does not: other nodes, which their tests add and remove.
"""

from collections.abc import AsyncIterator

import pytest_asyncio

from testbed.daemons.agent import GpuNode
from testbed.kubelets import KubeletSpec
from testbed.nvml import card
from tests.support.fixtures.agents import Link, add_linked_node, linked
from tests.support.fixtures.gpu_nodes import (
    SHARING,
    T4,
    GpuBed,
    clear,
    gpu_bed,
    until_allocatable,
    until_current,
)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def gpus() -> AsyncIterator[GpuBed]:
    async with gpu_bed() as found:
        yield found


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def link(gpus: GpuBed) -> AsyncIterator[Link]:
    async with linked(gpus.bed) as found:
        yield found


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def node(gpus: GpuBed, link: Link) -> GpuNode:
    """Two T4 of 14 units; a kubelet that writes its status every second."""
    config = {"nodeStatusUpdateFrequency": "1s", "logging": {"verbosity": 4}}
    spec = KubeletSpec("faulty", labels=SHARING, config=config)
    found = await add_linked_node(gpus.bed, link, spec, 2 * [card("T4")], ["--recovery-seconds=1"])
    await until_allocatable(found, 2 * T4)
    return found


@pytest_asyncio.fixture(autouse=True, loop_scope="package")
async def nothing_left(gpus: GpuBed, node: GpuNode) -> AsyncIterator[None]:
    # The link runs in this process: it answers nothing while the process waits for a slot between two files.
    await until_current(node)
    yield
    await clear(gpus.bed, node)
