"""The pages that share a GPU between notebooks, command by command, and the outputs that they show.

The tutorial on memory limits needs deployed services: ``tests/e2e/test_stack.py`` plays its scenario, and
``tests/unit/docs/test_tutorials.py`` checks that the page has the commands of the scenario.
"""

from pathlib import Path

import pytest

from testbed.stories import notebooks
from testbed.stories.play import show, simulated_cluster
from tests.support.pages import Command, Written, steps, unmet

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def write(file: Written) -> None:
    Path(file.path).write_text(file.text)


@pytest.mark.parametrize("page", ["docs/tutorials/share-a-gpu.md", "docs/zh/quick-start.md"])
async def test_each_command_of_the_page_prints_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    async with simulated_cluster(notebooks()) as bed:
        for step in steps((ROOT / page).read_text()):
            if isinstance(step, Command):
                output = await show(bed, step.line)
                missing = unmet(step.expected, output)
                assert not missing, f"{step.line}: {missing!r} is not where the page has it:\n{output}"
            else:
                write(step)
