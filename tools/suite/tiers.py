"""The long tests, and which of them a change concerns: ``tests/tiers.toml``.

``make test`` leaves the long tests out, ``make test-all`` runs all. What belongs here: reading the table, and
the choice as a pure function. What does not: leaving tests out (``tests/conftest.py``), and running
(``tools.suite.run``).
"""

import subprocess
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = ROOT / "tests/tiers.toml"
SCENARIOS: Final = "ansible/extensions/molecule/"
_GIT_S: Final = 60.0


class UnknownCommitError(Exception):
    """The commit that a change begins at is not in the checkout."""


@dataclass(frozen=True)
class Area:
    """Paths of the checkout, and the long tests of what is in them."""

    name: str
    paths: tuple[str, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Selection:
    """The long tests to leave out, and why: a sentence."""

    left_out: frozenset[str]
    why: str

    def is_left_out(self, test: str, *names: str, is_short: bool) -> bool:
        """Return whether to leave out a test, by its id and the ``names`` that its markers ``long`` have.

        ``is_short`` is whether it has the marker ``short``.
        """
        candidates = (test.partition("::")[0], test.partition("[")[0], *names)
        return not is_short and not self.left_out.isdisjoint(candidates)


EVERYTHING: Final = Selection(frozenset(), "")


def read(table: Path = TABLE) -> tuple[Area, ...]:
    """Return the areas of the table."""
    areas = tomllib.loads(table.read_text())["area"]
    return tuple(Area(each["name"], tuple(each["paths"]), tuple(each["tests"])) for each in areas)


def long_tests(areas: Iterable[Area]) -> frozenset[str]:
    """Return the long tests of all areas."""
    return frozenset(test for area in areas for test in area.tests)


def short(areas: Sequence[Area]) -> Selection:
    """Return the choice of ``make test`` for no change in particular."""
    return Selection(long_tests(areas), "make test-all runs them")


def for_change(areas: Sequence[Area], changed: Iterable[str], commit: str) -> Selection:
    """Return the choice for the paths that changed since ``commit``, without long tests that they concern."""
    paths = list(changed)
    if unknown := [path for path in paths if not _known(areas, path)]:
        return Selection(frozenset(), f"nothing: {unknown[0]} may concern every test")
    concerned = frozenset(test for path in paths for test in _concerned(areas, path))
    return Selection(long_tests(areas) - concerned, f"no change since {commit} concerns them")


def changed_since(commit: str, root: Path = ROOT) -> list[str]:
    """Return the paths that differ from the commit, also those that are not committed.

    Raises UnknownCommitError.
    """
    tracked = _git(root, "diff", "--name-only", "--no-renames", "-z", "--end-of-options", commit, "--")
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return sorted({*tracked, *new})


def _git(root: Path, *arguments: str) -> list[str]:
    ended = subprocess.run(  # noqa: S603 - the user's own checkout
        ["git", "-C", str(root), *arguments],  # noqa: S607 - of PATH
        capture_output=True,
        text=True,
        timeout=_GIT_S,
        check=False,
    )
    if ended.returncode:
        raise UnknownCommitError(ended.stderr.strip().partition("\n")[0])
    return [path for path in ended.stdout.split("\0") if path]


def scenarios(choice: Selection, root: Path = ROOT) -> list[str]:
    """Return the names of the molecule scenarios that are not left out."""
    found = sorted(path.parent.name for path in (root / SCENARIOS).glob("*/molecule.yml"))
    return [name for name in found if f"{SCENARIOS}{name}" not in choice.left_out]


def choose(*, everything: bool, since: str | None) -> Selection:
    """Return the choice for the options of a run. Raises UnknownCommitError."""
    if everything:
        return EVERYTHING
    areas = read()
    return for_change(areas, changed_since(since), since) if since else short(areas)


def _known(areas: Iterable[Area], path: str) -> bool:
    return path in long_tests(areas) or any(_has(area, path) for area in areas)


def _concerned(areas: Iterable[Area], path: str) -> Iterable[str]:
    """The tests of the areas of a path, and the path itself: it may be a long test."""
    yield path
    for area in areas:
        if _has(area, path):
            yield from area.tests


def _has(area: Area, path: str) -> bool:
    return any(path == each or (each.endswith("/") and path.startswith(each)) for each in area.paths)
