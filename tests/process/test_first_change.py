"""The first change of CONTRIBUTING.md works as written, in a clone of the checkout."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.pages import Command, steps, unmet
from tools.suite import results

ROOT = Path(__file__).parents[2]
PAGE = "CONTRIBUTING.md"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of the last commit, with the uncommitted page, that uses the environment of the checkout."""
    folder = tmp_path / "gpushare"
    run(["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)], tmp_path)
    (folder / PAGE).write_text((ROOT / PAGE).read_text())
    (folder / ".venv").mkdir()
    (folder / ".venv/bin").symlink_to(ROOT / ".venv/bin")
    # `make setup` has nothing to do: it would need the package index.
    (folder / ".venv/.synced").touch()
    return folder


def run(argv: list[str], folder: Path) -> str:
    # One of the page's commands shows a test that fails, which is no result of this run.
    ours = ("PYTEST", "MAKE", results.FOLDER)
    env = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    done = subprocess.run(  # noqa: S603 - the commands of our own page
        argv, cwd=folder, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_every_command_prints_what_the_page_shows(clone: Path) -> None:
    commands = [step for step in steps((clone / PAGE).read_text()) if isinstance(step, Command)]
    assert len(commands) >= 6
    for command in commands:
        output = run(["bash", "-c", command.line], clone)
        missing = unmet(command.expected, output)
        assert not missing, f"{command.line}: {missing!r} is not where the page has it:\n{output}"
    assert run(["git", "diff", "--stat", "--", "gpushare"], clone) == ""
