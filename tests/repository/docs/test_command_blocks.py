"""Each command of the documentation is run by a test, or the table beside this file says why not."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.pages import Command, steps

ROOT = Path(__file__).parents[3]
TABLE: dict[str, dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("command_blocks.toml").read_text()
)
WHOLE_PAGE = "*"


def sections(page: Path) -> set[str]:
    """The sections of a page that show commands."""
    return {step.section for step in steps(page.read_text()) if isinstance(step, Command)}


SHOWN = {
    str(page.relative_to(ROOT)): found
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "_build" not in page.relative_to(ROOT).parts and (found := sections(page))
}


def test_every_section_with_commands_has_an_entry_and_every_entry_a_section() -> None:
    listed = {page: set(entries) for page, entries in TABLE.items()}
    expected = {page: {WHOLE_PAGE} if listed.get(page) == {WHOLE_PAGE} else SHOWN[page] for page in SHOWN}
    assert listed == expected


@pytest.mark.parametrize("page", TABLE)
def test_an_entry_names_a_test_or_a_reason(page: str) -> None:
    for section, entry in TABLE[page].items():
        if reason := entry.get("none"):
            assert len(reason.split()) >= 5, section
        else:
            assert set(entry) in ({"runs"}, {"same", "by"}), section
            test = entry.get("runs") or entry["same"]
            assert (ROOT / test).is_file(), test


@pytest.mark.parametrize("page", TABLE)
def test_a_test_that_takes_the_same_steps_has_one_of_them(page: str) -> None:
    """In its own text, or on a page that it follows."""
    for section, entry in TABLE[page].items():
        if "same" in entry:
            text = (ROOT / entry["same"]).read_text()
            followed = [(ROOT / path).read_text() for path in re.findall(r"docs/[\w/-]+\.md", text)]
            assert any(entry["by"] in each for each in (text, *followed)), (section, entry)


@pytest.mark.parametrize("page", TABLE)
def test_a_test_that_runs_a_page_names_it(page: str) -> None:
    for entry in TABLE[page].values():
        if "runs" in entry:
            text = (ROOT / entry["runs"]).read_text()
            assert page in text
            assert "steps(" in text or "follow(" in text


@pytest.mark.parametrize("page", SHOWN)
def test_commands_are_in_blocks_of_one_kind(page: str) -> None:
    """The parser of pages finds blocks ``console`` only."""
    text = (ROOT / page).read_text()
    assert not [kind for kind in ("bash", "shell", "sh") if f"```{kind}\n" in text]
