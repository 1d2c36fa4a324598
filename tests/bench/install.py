"""``make bench PART=install``: commands and minutes from a plain cluster to the first shared pod.

Times of the commands of the page "Install", as its test runs them (``tests/e2e/test_install.py``): without
the time that a person takes to read and to write files.
"""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import click

from tests.e2e.test_install import STEPS
from tests.support.machine import machine
from tests.support.pages import Command, Written

_ROOT: Final = Path(__file__).parents[2]
_FIRST_POD: Final = "8. The first pod"


@click.command()
def main() -> None:
    """Print the results as Markdown."""
    conditions = machine()
    seconds = [(step, each) for step, each in _run() if isinstance(step, Command)]
    click.echo(f"{conditions}\n")
    click.echo("| section | commands | seconds |\n|---|---|---|")
    total: list[float] = []
    for section in dict.fromkeys(step.section for step, _ in seconds):
        here = [each for step, each in seconds if step.section == section]
        total += here
        _print_row(section, here)
        if section == _FIRST_POD:
            _print_row("**all to the first pod**", total)
    click.echo("\n| command | seconds |\n|---|---|")
    for step, each in seconds:
        click.echo(f"| `{step.line}` | {each:.1f} |")


def _print_row(title: str, seconds: list[float]) -> None:
    click.echo(f"| {title} | {len(seconds)} | {sum(seconds):.0f} |")


def _run() -> list[tuple[Command | Written, float]]:
    """Run the test; return the steps of the page with their seconds."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        flags = ["-q", f"--junit-xml={report}", "--override-ini=junit_duration_report=call"]
        test = "tests/e2e/test_install.py::test_each_step_works_as_the_page_shows"
        done = subprocess.run(  # noqa: S603 - our own test
            [sys.executable, "-m", "pytest", *flags, test], cwd=_ROOT, check=False
        )
        if done.returncode:
            sys.exit("install: the test of the page failed, so there are no results")
        cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314 - our own file
        return list(zip(STEPS, (float(case.attrib["time"]) for case in cases), strict=True))


if __name__ == "__main__":
    main()
