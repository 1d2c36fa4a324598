"""The steps of the pipeline are targets of the Makefile."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from release.recipe import services

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PINNED = re.compile(r"^\s+(?:- )?uses: \S+@[0-9a-f]{40} # v[0-9.]+$")


def steps() -> Iterator[dict[str, Any]]:
    for file in FILES:
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            yield from job["steps"]


RUNS = [step["run"] for step in steps() if "run" in step]


def test_the_pipeline_has_steps() -> None:
    assert len(RUNS) > 5


@pytest.mark.parametrize("command", RUNS)
def test_a_step_is_one_make_target_that_exists(command: str) -> None:
    found = re.fullmatch(r'make (?:--silent )?([a-z-]+)(?: >> "\$GITHUB_OUTPUT")?', command)
    assert found is not None
    assert found[1] in TARGETS


@pytest.mark.parametrize(
    "line", [line for file in FILES for line in file.read_text().splitlines() if "uses:" in line]
)
def test_actions_are_pinned_by_commit(line: str) -> None:
    assert PINNED.match(line)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_pull_request_is_neither_deployed_nor_signed(file: Path) -> None:
    jobs = yaml.safe_load(file.read_text())["jobs"]
    assert jobs["up"]["if"] == "github.event_name == 'push'"
    signing = [step for step in jobs["images"]["steps"] if step.get("run") == "make sign"]
    assert [step["if"] for step in signing] == ["github.event_name == 'push'"]


def test_every_image_gets_its_provenance() -> None:
    jobs = yaml.safe_load(FILES[0].read_text())["jobs"]
    matrix = jobs["provenance"]["strategy"]["matrix"]["service"]
    assert matrix == services((ROOT / "Containerfile").read_text())
