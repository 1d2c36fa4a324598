"""Every program and command has a manual page."""

import re
import tomllib
from pathlib import Path

import click
import pytest

from gpushare.__main__ import COMMANDS
from gpushare.cli.main import TOOLS
from release import man_pages
from release.man_pages import page

ROOT = Path(__file__).parents[3]
PAGES = man_pages.pages()


def test_every_program_has_a_page_except_those_of_completion() -> None:
    programs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert not {name for name in programs if f"{name}.1" not in PAGES and "_complete-" not in name}


def test_every_command_has_a_page() -> None:
    names = {f"gpushare-{name}.1" for name in COMMANDS} | {f"kubectl-gpushare-{name}.1" for name in TOOLS}
    assert names < PAGES.keys()


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if text.startswith(".so ")])
def test_a_page_that_refers_to_another_refers_to_one_with_text(name: str) -> None:
    other = PAGES[name].strip().removeprefix(".so man1/")
    assert PAGES[other].startswith(".TH ")


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if text.startswith(".TH ")])
def test_a_page_has_its_sections_and_no_text_that_is_a_request(name: str) -> None:
    sections = re.findall(r"^\.SH (.+)$", PAGES[name], re.MULTILINE)
    assert sections[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    requests = set(re.findall(r"^([.']\w*)", PAGES[name], re.MULTILINE))
    assert requests <= {".TH", ".SH", ".B", ".PP", ".TP", ".nf", ".fi"}


def test_examples_keep_their_lines_and_backslashes() -> None:
    epilog = "\b\nExamples:\n  a \\\n    -b\n  .c\n"
    text = page("a", click.Command("a", help="Do.", epilog=epilog))
    assert text.endswith(".SH EXAMPLES\n.PP\n.nf\na \\e\n  \\-b\n\\&.c\n.fi\n")
