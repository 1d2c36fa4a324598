"""Files, folders and links of a page exist; Sphinx checks only the links between its own pages."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gpushare import contract

ROOT = Path(__file__).parents[3]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(ROOT / name for name in ("changelog.d/README.md", "tests/README.md")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.relative_to(ROOT).parts),
]
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()}
ON_NODES = {contract.AGENT_RECORD, contract.FAULT_RECORD}
"""Files of the agent, below a folder of the kubelet."""


def paths(page: Path) -> list[str]:
    """Paths between backticks that begin in a folder of the repository, or for the tests in one of theirs.

    Users copy ``inventories/example`` to ``inventories/mine``.
    """
    text = page.read_text().replace("inventories/mine/", "inventories/example/")
    found = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", text)
    if page.parent == ROOT / "tests":
        return [path if path.startswith("ansible/") else f"tests/{path}" for path in found]
    return [path for path in found if path.split("/")[0] in FOLDERS and path not in ON_NODES]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_paths_of_a_page_exist(page: Path) -> None:
    """A path may be a Python module without its suffix."""
    missing = [
        path for path in paths(page) if not (ROOT / path).exists() and not (ROOT / f"{path}.py").exists()
    ]
    assert not missing


def links(page: Path) -> list[str]:
    """The targets of the links of a page, outside of blocks of code."""
    return [target for _, target in re.findall(r"\[([^\[\]]*)\]\(([^)\s]+)\)", _prose(page))]


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of the headings of a page, as GitHub and MyST name them."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings)


def _prose(page: Path) -> str:
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_links_of_a_page_lead_to_files_and_their_headings(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        if "://" in link:
            continue
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_external_links_of_a_page_are_complete(page: Path) -> None:
    """They are not opened: the tests need no network."""
    for link in filter(re.compile(r"[a-z]+:").match, links(page)):
        parts = urlsplit(link)
        assert parts.scheme == "https", link
        assert "." in (parts.hostname or ""), link


def test_links_and_anchors_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# `A` page: it's [a](b.md#c)\n```console\n$ echo [x](y)\n```\n[z](https://e.org/_d)\n")
    assert links(page) == ["b.md#c", "https://e.org/_d"]
    assert anchors(page) == {"a-page-its-abmdc"}


def test_the_architecture_page_and_the_map_of_the_tests_name_paths() -> None:
    assert all(len(paths(ROOT / page)) > 30 for page in ("docs/architecture.md", "tests/README.md"))
