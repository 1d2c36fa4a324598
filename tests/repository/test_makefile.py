"""The targets of the Makefile name what exists; ``make help`` lists them in groups."""

import re
import subprocess
from pathlib import Path

import pytest

from tools.suite import run, tiers

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Makefile").read_text()


def made(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - ours


def test_help_lists_every_documented_target_in_its_group() -> None:
    shown = made("help").stdout
    assert re.findall(r"^(\w+)$", shown, re.MULTILINE) == ["Try", "Use", "Develop", "Maintain"]
    assert re.findall(r"^  make (\S+)", shown, re.MULTILINE) == re.findall(
        r"^(\S+):.*## ", TEXT, re.MULTILINE
    )


@pytest.mark.parametrize("choice", [tiers.EVERYTHING, tiers.short(tiers.read())], ids=["all", "short"])
def test_the_steps_of_a_run_of_all_tests_are_targets(choice: tiers.Selection) -> None:
    plan = run.Plan(choice, everything=choice is tiers.EVERYTHING)
    steps = [*plan.fast, *plan.builds, *(step for row in plan.real for step in row)]
    targets = re.findall(r"^([a-z][a-z0-9-]*)(?: [a-z0-9-]+)*:", TEXT, re.MULTILINE)
    assert {step.target for step in steps} <= {*targets}


def test_the_parts_of_the_benchmarks_are_those_that_exist() -> None:
    programs = [*(ROOT / "tests/bench").glob("*.py"), *(ROOT / "tests/bench").glob("*/__init__.py")]
    named = {
        found[1] for path in programs if (found := re.search(r"``make bench PART=(\S+)``", path.read_text()))
    }
    listed = re.search(r"^BENCHES := (.+)$", TEXT, re.MULTILINE)
    assert listed
    assert {*listed[1].split()} == named


@pytest.mark.parametrize("target", ["bench", "test-unit", "preview"])
def test_a_missing_variable_is_an_error_that_names_it(target: str) -> None:
    done = made("--dry-run", target)
    assert done.returncode == 2
    assert f"make {target} " in done.stderr
