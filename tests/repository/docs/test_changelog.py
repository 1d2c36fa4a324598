"""The changelog is short enough to read, and each fragment has a name and a form that towncrier accepts."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FRAGMENTS = [path for path in sorted((ROOT / "changelog.d").iterdir()) if path.name != "README.md"]
SECTIONS = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
KINDS = [
    kind["directory"]
    for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
]


def test_a_fragment_is_a_sentence_of_a_known_kind() -> None:
    for fragment in FRAGMENTS:
        assert re.fullmatch(rf"(?:\d+|\+[\w-]+)\.(?:{'|'.join(KINDS)})\.md", fragment.name)
        assert re.fullmatch(r"[A-Z`].*\.\n", fragment.read_text(), re.DOTALL), fragment.name
        assert len(fragment.read_text()) <= 500, fragment.name


def test_the_page_of_fragments_lists_the_kinds() -> None:
    page = (ROOT / "changelog.d/README.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == KINDS


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.split()[0])
def test_a_section_names_its_version_and_date_and_fits_on_a_screen(section: str) -> None:
    assert re.match(r"\d+\.\d+\.\d+(-rc\.\d+)? - (\d{4}-\d\d-\d\d|unreleased)\n", section)
    assert len(section.splitlines()) <= 60


def test_only_the_newest_section_may_be_unreleased() -> None:
    assert not [section for section in SECTIONS[1:] if "unreleased" in section.splitlines()[0]]
