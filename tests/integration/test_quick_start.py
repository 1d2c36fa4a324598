"""The page "Run the cluster": its commands with kubectl, on a cluster without nodes of a control plane.

The API server is real, nodes are simulated: containers do not start there, and the GPU node offers its units
without an agent. ``tests/e2e/test_managed.py`` runs this layout on real kubelets, and
``tests/e2e/test_install.py`` builds and pushes images.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from testbed import Bed, SimGpu, SimNode, Testbed, gpu_pod, until
from tests.support.builders.stacks import DIGEST
from tests.support.fixtures.checkouts import ROOT
from tests.support.fixtures.readers import Reader
from tests.support.fixtures.sidecars import scheduler_of
from tests.support.pages import Command, Written, steps

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

PAGE = (ROOT / "docs/how-to/quick-start.md").read_text()
STEPS = [each for each in steps(PAGE) if each.section != "Install with Helm"]
PODS = "/api/v1/namespaces/kube-system/pods"
IMAGES = ("extender", "device-plugin", "exporter", "isolation", "metrics-api", "cli")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    async with Testbed() as bed:
        plain = [SimNode(f"cpu-{number}") for number in (1, 2)]
        await bed.add_nodes([*plain, SimNode("gpu-1", [SimGpu()])])
        made = await Reader.of(bed, tmp_path_factory.mktemp("quick-start"))
        # What `make images` writes.
        (made.checkout / "images.json").write_text(json.dumps(dict.fromkeys(IMAGES, DIGEST)))
        yield made


async def pods(bed: Bed, name: str) -> list[Any]:
    """Of kube-system, with names that begin so."""
    return [each for each in await bed.api.items(PODS) if each["metadata"]["name"].startswith(name)]


async def test_each_command_of_the_page_prints_what_the_page_shows(reader: Reader) -> None:
    images, path, *commands = [each for each in STEPS if isinstance(each, Command)]
    assert images.line.startswith("make setup images ")
    assert path.line == 'export PATH="$PWD/.venv/bin:$PATH"'
    for file in STEPS:
        if isinstance(file, Written) and file.path:
            (reader.checkout / file.path).write_text(file.text)
    for command in commands:
        await reader.follow(command)


async def test_the_label_brings_an_agent_to_the_node(reader: Reader) -> None:
    async def runs() -> bool:
        agents = await pods(reader.bed, "gpushare-device-plugin-ds")
        return [each["spec"].get("nodeName") for each in agents] == ["gpu-1"]

    await until(runs, "the agent of gpu-1", 60)


async def test_pods_with_gpu_memory_get_the_scheduler_beside_the_extender(reader: Reader) -> None:
    extenders = await pods(reader.bed, "gpushare-schd-extender")
    assert len(extenders) == 1

    async def named() -> bool:
        return await scheduler_of(reader.bed, gpu_pod("shared", 4)) == "gpushare-scheduler"

    # API servers enforce a new policy a moment after they store it.
    await until(named, "new pods to get the scheduler", 30)
