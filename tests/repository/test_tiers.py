"""Which long tests ``make test`` leaves out, and for which changes it adds them."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tools.suite import tiers
from tools.suite.tiers import (
    EVERYTHING,
    ROOT,
    Area,
    UnknownCommitError,
    changed_since,
    for_change,
    long_tests,
    short,
)

AREAS = (
    Area("a", ("a/", "one.py"), ("tests/test_a.py",)),
    Area("b", ("b/", "a/shared/"), ("tests/test_b.py",)),
    Area("none", ("docs/",), ()),
)
BOTH = {"tests/test_a.py", "tests/test_b.py"}
TABLE = tiers.read()


@pytest.mark.parametrize(
    ("changed", "left_out"),
    [
        ([], BOTH),
        (["docs/page.md"], BOTH),
        (["a/file.py"], {"tests/test_b.py"}),
        (["one.py"], {"tests/test_b.py"}),
        (["a/shared/file.py"], set()),
        (["tests/test_a.py"], {"tests/test_b.py"}),
        (["docs/page.md", "b/file.py"], {"tests/test_a.py"}),
        (["unknown.py"], set()),
        (["one.py.orig"], set()),
        (["docs/page.md", "unknown.py"], set()),
    ],
)
def test_a_change_adds_the_long_tests_of_its_areas_and_an_unknown_path_adds_all(
    changed: list[str], left_out: set[str]
) -> None:
    assert for_change(AREAS, changed, "HEAD").left_out == left_out


def test_a_test_with_the_marker_is_not_left_out() -> None:
    choice = short(AREAS)
    assert choice.is_left_out("tests/test_a.py::test_b[c]", is_short=False)
    assert not choice.is_left_out("tests/test_a.py::test_b[c]", is_short=True)
    assert not choice.is_left_out("tests/test_c.py::test_b", is_short=False)
    assert not EVERYTHING.is_left_out("tests/test_a.py::test_b", is_short=False)


def test_a_single_test_of_a_file_is_left_out_with_all_parameters() -> None:
    choice = short((Area("a", (), ("tests/test_a.py::test_b",)),))
    assert choice.is_left_out("tests/test_a.py::test_b[c]", is_short=False)
    assert not choice.is_left_out("tests/test_a.py::test_bc", is_short=False)


def test_a_scenario_that_is_left_out_is_not_named() -> None:
    assert tiers.scenarios(short(TABLE)) == ["site"]
    assert {"default", "site"} < set(tiers.scenarios(EVERYTHING))


def test_tests_of_a_name_are_left_out() -> None:
    choice = short((Area("a", (), ("slow ones",)),))
    assert choice.is_left_out("tests/test_a.py::test_b[c]", "slow ones", is_short=False)
    assert not choice.is_left_out("tests/test_a.py::test_b[d]", is_short=False)


def test_a_name_in_the_table_is_that_of_a_marker() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    names = [name for name in long_tests(TABLE) if " " in name]
    assert names
    assert all(any(f'pytest.mark.long("{name}")' in text for text in texts) for name in names)


PATHS = {*long_tests(TABLE), *(path for area in TABLE for path in area.paths)}


@pytest.mark.parametrize("path", sorted(path for path in PATHS if " " not in path))
def test_every_path_of_the_table_exists(path: str) -> None:
    name, _, test = path.partition("::")
    assert (ROOT / name).is_dir() if name.endswith("/") else (ROOT / name).exists()
    assert not test or f"def {test}(" in (ROOT / name).read_text()


def test_only_tests_of_long_files_have_the_marker() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py") if _marks(path)}
    assert files
    assert files <= long_tests(TABLE)


def _marks(path: Path) -> bool:
    return any(
        isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.short"
        for node in ast.walk(ast.parse(path.read_text()))
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit."""
    (tmp_path / "old").write_text("")
    (tmp_path / "same").write_text("")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a", "commit", "--quiet", "-m", "a")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], check=True)  # noqa: S603, S607 - a repository of the test


def test_a_change_has_what_is_not_committed_and_both_names_of_a_moved_file(checkout: Path) -> None:
    (checkout / "old").rename(checkout / "new name\n")
    assert changed_since("HEAD", checkout) == ["new name\n", "old"]


@pytest.mark.parametrize("commit", ["nothing", "--help"])
def test_the_error_for_an_unknown_commit_names_it(checkout: Path, commit: str) -> None:
    with pytest.raises(UnknownCommitError, match=commit):
        changed_since(commit, checkout)


def test_the_table_of_invariants_marks_the_long_tests() -> None:
    text = (ROOT / "tests/README.md").read_text().partition("## Invariants")[2]
    found = re.findall(r"`([\w/]+/test_\w+\.py)`([†‡]?)", text)
    assert found
    assert found == [(name, _mark(ROOT / "tests" / name)) for name, _ in found]


def _mark(path: Path) -> str:
    if str(path.relative_to(ROOT)) not in long_tests(TABLE):
        return ""
    return "‡" if _marks(path) else "†"
