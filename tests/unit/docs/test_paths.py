"""Files and folders that a page names exist; Sphinx checks only the links between its own pages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts),
]
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()}


def paths(page: Path) -> list[str]:
    """Paths between backticks that begin in a folder of the repository, or for the tests in one of theirs.

    Users copy ``inventories/example`` to ``inventories/mine``.
    """
    text = page.read_text().replace("inventories/mine/", "inventories/example/")
    found = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", text)
    if page.parent.name == "tests":
        return [path if path.startswith("ansible/") else f"tests/{path}" for path in found]
    return [path for path in found if path.split("/")[0] in FOLDERS and path != "gpushare/grants.json"]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_paths_of_a_page_exist(page: Path) -> None:
    """A path may be a Python module without its suffix."""
    missing = [
        path for path in paths(page) if not (ROOT / path).exists() and not (ROOT / f"{path}.py").exists()
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_links_of_a_page_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    files = [(page.parent / link).resolve() for link in links]
    assert not [file for file in files if not file.exists()]


def test_the_architecture_page_and_the_map_of_the_tests_name_paths() -> None:
    assert all(len(paths(ROOT / page)) > 30 for page in ("docs/architecture.md", "tests/README.md"))
