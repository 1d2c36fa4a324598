"""Breaks safety rules one by one, and checks that tests notice: ``python -m tools.mutants [NAME...]``.

``mutants*.toml`` list the mutants. Each is applied to a copy of the checkout, in which its tests run; one
must fail. A mutant that survives shows a missing test. ``make mutants`` runs all, which takes some minutes.
"""

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
LISTS: Final = tuple(sorted(Path(__file__).parent.glob("mutants*.toml")))
_PYTEST: Final = ("-q", "-p", "no:cacheprovider", "--hypothesis-profile=check", "--timeout=60")
_LIMIT_S: Final = 300
_FIRST_LIMIT_S: Final = 1200
"""For all tests without a mutant, on a busy machine."""
_AT_ONCE: Final = 2
_FAILED_TEST: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_ENVIRONMENTS: Final = (
    "ansible/.venv",
    "ansible/legacy/.venv",
    "ansible/newest/.venv",
    "ansible/plugins/plugin_utils/gpushare",
)
_TAIL: Final = 15
"""Lines of output to print if tests fail where they should pass."""


class MutantsError(Exception):
    """The list is invalid, or a mutant of the command line is not in it."""


class Judgement(StrEnum):
    """The result of a mutant. ``BROKEN``: the entry or its tests prove nothing."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"


class MutantStatus:
    """Exit statuses of pytest."""

    PASSED: Final = 0
    FAILED: Final = 1


@dataclass(frozen=True)
class Mutant:
    """A change of ``file`` that breaks a safety rule: ``replacement`` for ``text``.

    ``why`` is the effect of the change, and ``tests`` are the paths, for pytest, of the tests that notice it.
    """

    name: str
    file: str
    text: str
    replacement: str
    why: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class MutantRun:
    """The end of a run of pytest: its exit status, None after the time limit, and its output."""

    status: int | None
    output: str

    @property
    def failed(self) -> list[str]:
        """The tests that failed."""
        return _FAILED_TEST.findall(self.output)


@dataclass(frozen=True)
class MutantOutcome:
    """The result of a mutant; ``detail`` is the test that failed, or the problem."""

    mutant: Mutant
    verdict: Judgement
    detail: str = ""
    seconds: float = 0


def parse(content: str) -> list[Mutant]:
    """Return the mutants of a list. Raises MutantsError."""
    try:
        tables = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise MutantsError(f"not TOML: {error}") from error
    return [_mutant(name, table) for name, table in tables.items()]


def _mutant(name: str, table: Mapping[str, Any]) -> Mutant:
    keys = {each.name for each in fields(Mutant)} - {"name"}
    if table.keys() != keys or not all(table.values()):
        raise MutantsError(f"mutant {name} needs exactly {', '.join(sorted(keys))}, none of them empty")
    return Mutant(name, **{**table, "tests": tuple(table["tests"])})


def listed(paths: Iterable[Path] = LISTS) -> list[Mutant]:
    """Return the mutants of all lists. Raises MutantsError."""
    found: dict[str, Mutant] = {}
    for path in paths:
        try:
            mutants = parse(path.read_text())
        except MutantsError as error:
            raise MutantsError(f"{path.name}: {error}") from error
        for each in mutants:
            if each.name in found:
                raise MutantsError(f"{path.name}: another mutant has the name {each.name}")
            found[each.name] = each
    return [*found.values()]


def select(mutants: Sequence[Mutant], names: Collection[str]) -> list[Mutant]:
    """Return the mutants with these names, or all without names. Raises MutantsError."""
    if unknown := sorted(set(names) - {each.name for each in mutants}):
        raise MutantsError(f"unknown mutant {', '.join(unknown)}; tools/mutants*.toml list the names")
    return [each for each in mutants if not names or each.name in names]


def mutated(mutant: Mutant, content: str) -> str:
    """Return the content of the file with the change. Raises MutantsError if it cannot be applied."""
    if (count := content.count(mutant.text)) != 1:
        raise MutantsError(f"its text occurs {count} times in {mutant.file}, not once")
    changed = content.replace(mutant.text, mutant.replacement)
    if changed == content:
        raise MutantsError("its replacement equals its text")
    return changed


def judged(mutant: Mutant, run: MutantRun, seconds: float = 0) -> MutantOutcome:
    """Return the result of a mutant from the run of its tests."""
    if run.status == MutantStatus.PASSED:
        return MutantOutcome(mutant, Judgement.SURVIVED, mutant.why, seconds)
    if run.status == MutantStatus.FAILED:
        return MutantOutcome(mutant, Judgement.KILLED, next(iter(run.failed), ""), seconds)
    return MutantOutcome(mutant, Judgement.BROKEN, _no_result(run), seconds)


def _no_result(run: MutantRun) -> str:
    """Why a run proves nothing. A mutant that cannot be imported ends the collection with another status."""
    if run.status is None:
        return "its tests did not end in time"
    return f"pytest ended with status {run.status}: {' '.join(run.failed) or 'no test ran'}"


def without_result(mutants: Iterable[Mutant], run: MutantRun) -> list[MutantOutcome]:
    """Return the mutants whose tests fail without a change, or all if the first run did not finish."""
    if run.status == MutantStatus.PASSED:
        return []
    if run.status != MutantStatus.FAILED:
        return [
            MutantOutcome(each, Judgement.BROKEN, f"without a change: {_no_result(run)}") for each in mutants
        ]
    failing = {each: [test for test in run.failed if _selects(each, test)] for each in mutants}
    return [
        MutantOutcome(each, Judgement.BROKEN, f"fails without a change: {tests[0]}")
        for each, tests in failing.items()
        if tests
    ]


def _selects(mutant: Mutant, test: str) -> bool:
    """Whether the mutant's tests contain a test, by its id."""
    return any(
        test == each or test.startswith((f"{each}::", f"{each}[", f"{each}/")) for each in mutant.tests
    )


def summary(outcomes: Sequence[MutantOutcome], seconds: float) -> list[str]:
    """Return the mutants that were not killed, and the counts."""
    counts = {verdict: sum(each.verdict is verdict for each in outcomes) for verdict in Judgement}
    numbers = ", ".join(f"{count} {verdict.lower()}" for verdict, count in counts.items())
    bad = [each for each in outcomes if each.verdict is not Judgement.KILLED]
    return [
        *(f"mutants: {each.verdict} {each.mutant.name} ({each.mutant.file}): {each.detail}" for each in bad),
        f"mutants: {len(outcomes)} in {seconds:.0f} s: {numbers}",
    ]


class Copies:
    """Copies of the checkout below ``folder``; each run of tests has one of them for itself."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._changes = itertools.count(1)
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            self._free.put(folder / f"copy-{number}")

    def run(
        self, tests: Sequence[str], mutant: Mutant | None = None, *options: str, limit_s: float
    ) -> MutantRun:
        """Run tests in a new copy, with the change of a mutant. Raises MutantsError."""
        copy = self._free.get()
        try:
            copy_checkout(copy)
            if mutant:
                _apply(copy, mutant, next(self._changes))
            return self._pytest(copy, [*options, *tests], limit_s)
        finally:
            shutil.rmtree(copy, ignore_errors=True)
            self._free.put(copy)

    def _pytest(self, copy: Path, arguments: Sequence[str], limit_s: float) -> MutantRun:
        # Copies come before the checkout, which is installed in the virtual environment.
        # All runs share their bytecode, which is valid for one time of modification, in seconds.
        # A skipped test notices nothing.
        env = {
            **os.environ,
            "GPUSHARE_REQUIRE_ALL": "1",
            "PYTHONPATH": str(copy),
            "PYTHONPYCACHEPREFIX": str(self._folder / "bytecode"),
        }
        try:
            ended = subprocess.run(  # noqa: S603
                [sys.executable, "-m", "pytest", *_PYTEST, *arguments],
                cwd=copy,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return MutantRun(None, (error.stdout or b"").decode(errors="replace"))
        return MutantRun(ended.returncode, ended.stdout)


def copy_checkout(copy: Path) -> None:
    """Copy the files of the checkout that git does not ignore, with their times of modification.

    The environments of the Ansible collection are links.
    """
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    for name in filter(None, found.stdout.split("\0")):
        source, target = ROOT / name, copy / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    for name in _ENVIRONMENTS:
        if (ROOT / name).exists():
            (copy / name).symlink_to(ROOT / name)


def _apply(copy: Path, mutant: Mutant, number: int) -> None:
    """Change the file, and give it a time of modification that no other version of it has."""
    path = copy / mutant.file
    modified = path.stat().st_mtime + number
    path.write_text(mutated(mutant, path.read_text()))
    os.utime(path, (modified, modified))


def run_all(chosen: Sequence[Mutant], copies: Copies) -> list[MutantOutcome]:
    """Check the tests without a mutant, then run each mutant; print each result."""
    tests = sorted({test for each in chosen for test in each.tests})
    _say(f"mutants: {len(tests)} paths of tests without a mutant")
    first = copies.run(tests, None, "-n", str(_AT_ONCE), limit_s=_FIRST_LIMIT_S)
    if first.status != MutantStatus.PASSED:
        _say(*first.output.splitlines()[-_TAIL:])
    broken = {each.mutant: each for each in without_result(chosen, first)}

    def run_one(mutant: Mutant) -> MutantOutcome:
        outcome = broken.get(mutant) or run(mutant, copies)
        _say(f"mutants: {outcome.verdict:8} {mutant.name:45} {outcome.seconds:4.0f} s {outcome.detail}")
        return outcome

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(run_one, chosen))


def run(mutant: Mutant, copies: Copies) -> MutantOutcome:
    """Run the tests of a mutant until one fails."""
    began = time.monotonic()
    try:
        ended = copies.run(mutant.tests, mutant, "-x", limit_s=_LIMIT_S)
    except MutantsError as error:
        return MutantOutcome(mutant, Judgement.BROKEN, str(error))
    return judged(mutant, ended, time.monotonic() - began)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants of the command line, or all; returns 1 if one was not killed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("name", nargs="*", help="names of mutants; default: all")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        chosen = select(listed(), options.name)
    except MutantsError as error:
        _say(f"mutants: {error}")
        return 1
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        outcomes = run_all(chosen, Copies(Path(folder), _AT_ONCE))
    _say(*summary(outcomes, time.monotonic() - began))
    return int(any(each.verdict is not Judgement.KILLED for each in outcomes))


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201 - the output of the command


if __name__ == "__main__":
    sys.exit(main())
