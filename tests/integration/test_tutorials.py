"""The tutorials that need no containers, command by command, and the outputs that they show.

The others need deployed services: ``tests/e2e`` plays their scenarios. Of the tutorial on memory limits,
``tests/e2e/test_stack.py`` plays the scenario; ``tests/repository/docs/test_tutorials.py`` checks that the
page has its commands.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from gpushare.contract import LABEL_MODE, RESOURCE_CORE
from testbed import Bed, SchedulerSpec, SimNode
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from testbed.stories import T4, V100, notebooks
from tests.support.fixtures.pages import ROOT, follow
from tests.support.fixtures.simulated import clear

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARED = [SimNode(f"gpu-{number}", [T4, T4], f"192.168.2.{number}") for number in (1, 2)]
DIVIDED = [SimNode("gpu-1", [V100], labels={LABEL_MODE: "core_mem"}, allocatable={RESOURCE_CORE: "100"})]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def extender(clean_bed: Bed) -> ExtenderSpec:
    spec = ExtenderSpec()
    await clean_bed.restart_scheduler(SchedulerSpec(extenders=[component_config(spec.url)]))
    await grant(clean_bed)
    await start_extender(clean_bed, spec)
    return spec


@pytest_asyncio.fixture(loop_scope="session")
async def bed(clean_bed: Bed, extender: ExtenderSpec) -> AsyncIterator[Bed]:
    """A cluster without nodes."""
    yield clean_bed
    await clear(clean_bed, extender)


@pytest.mark.parametrize(
    ("page", "nodes"),
    [
        ("docs/tutorials/share-a-gpu.md", notebooks().nodes),
        ("docs/zh/quick-start.md", notebooks().nodes),
        ("docs/tutorials/node-labels.md", SHARED),
        ("docs/tutorials/compute-share.md", DIVIDED),
        ("docs/tutorials/quota-and-priority.md", [SimNode("gpu-1", [T4])]),
    ],
)
async def test_each_command_of_the_page_prints_what_the_page_shows(
    bed: Bed, page: str, nodes: Sequence[SimNode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    await bed.add_nodes(nodes)
    await follow(bed, page)
