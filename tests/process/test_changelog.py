"""``python -m release.version`` makes the section of a version from the fragments, with towncrier."""

import shutil
from datetime import date
from pathlib import Path

import pytest

from gpushare.errors import ConfigError
from release.publish import changes
from release.version import write_changelog

ROOT = Path(__file__).parents[2]
DAY = date(2026, 12, 1)
HEAD = "# Changelog\n\n<!-- towncrier release notes start -->\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(f"{HEAD}\n## 0.1.0 - 2026-11-30\n\n- first\n")
    (tmp_path / "changelog.d").mkdir()
    shutil.copy(ROOT / "changelog.d/README.md", tmp_path / "changelog.d")
    return tmp_path


def add(checkout: Path, **fragments: str) -> None:
    for kind, text in fragments.items():
        (checkout / "changelog.d" / f"12.{kind}.md").write_text(f"{text}\n")


def section(checkout: Path, version: str) -> str:
    return changes((checkout / "CHANGELOG.md").read_text(), version)


def test_fragments_become_the_newest_section_and_are_removed(checkout: Path) -> None:
    add(checkout, added="A pod may wait.", breaking="Use `--b`.")
    write_changelog("0.2.0", checkout, DAY)
    assert (
        section(checkout, "0.2.0")
        == "### Breaking\n\n- Use `--b`. (#12)\n\n### Added\n\n- A pod may wait. (#12)\n"
    )
    assert section(checkout, "0.1.0") == "- first\n"
    assert (checkout / "CHANGELOG.md").read_text().startswith(f"{HEAD}\n## 0.2.0 - 2026-12-01\n")
    assert [path.name for path in (checkout / "changelog.d").iterdir()] == ["README.md"]


def test_a_second_section_of_a_version_is_an_error(checkout: Path) -> None:
    with pytest.raises(ConfigError, match=r"CHANGELOG\.md already has a section of 0\.1\.0"):
        write_changelog("0.1.0", checkout, DAY)


def test_an_error_of_towncrier_is_one_line(checkout: Path) -> None:
    (checkout / "pyproject.toml").write_text("[tool.towncrier]\ntype = 1\n")
    with pytest.raises(ConfigError, match=r"^towncrier: .+$"):
        write_changelog("0.2.0", checkout, DAY)


def test_an_unreleased_section_gets_its_date(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text(f"{HEAD}\n## 0.1.0 - unreleased\n\n- first\n")
    write_changelog("0.1.0", checkout, DAY)
    assert (checkout / "CHANGELOG.md").read_text() == f"{HEAD}\n## 0.1.0 - 2026-12-01\n\n- first\n"
