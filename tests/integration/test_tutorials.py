"""The tutorials that need no containers, command by command, and the outputs that they show.

The others need deployed services: ``tests/e2e`` plays their scenarios. Of the tutorial on memory limits,
``tests/e2e/test_stack.py`` plays the scenario, and ``tests/unit/docs/test_tutorials.py`` checks that the page
has its commands.
"""

from pathlib import Path

import pytest

from gpushare.contract import LABEL_MODE, RESOURCE_CORE
from testbed import SimNode
from testbed.stories import T4, V100, Story, notebooks
from testbed.stories.play import simulated_cluster
from tests.fixtures.pages import ROOT, follow

pytestmark = pytest.mark.integration


def nodes(*found: SimNode) -> Story:
    """A cluster for the commands of a page alone."""
    return Story("page", "A page", found, [], [])


SHARED = nodes(*(SimNode(f"gpu-{number}", [T4, T4], f"192.168.2.{number}") for number in (1, 2)))
DIVIDED = nodes(SimNode("gpu-1", [V100], labels={LABEL_MODE: "core_mem"}, allocatable={RESOURCE_CORE: "100"}))


@pytest.mark.parametrize(
    ("page", "story"),
    [
        ("docs/tutorials/share-a-gpu.md", notebooks()),
        ("docs/zh/quick-start.md", notebooks()),
        ("docs/tutorials/node-labels.md", SHARED),
        ("docs/tutorials/compute-share.md", DIVIDED),
        ("docs/tutorials/quota-and-priority.md", nodes(SimNode("gpu-1", [T4]))),
    ],
)
async def test_each_command_of_the_page_prints_what_the_page_shows(
    page: str, story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    async with simulated_cluster(story) as bed:
        await follow(bed, page)
