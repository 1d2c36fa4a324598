"""What ``make test`` prints: the output of its steps as it comes, and at the end all failures and what ran.

What does not belong here: running (``tools.suite.run``), and the table of what ran (``tools.suite.results``).
"""

import os
import resource
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.suite import results, tiers
from tools.suite.results import Result

_TAIL: Final = 200
"""Lines of a failed step to print, if they are not the failures of pytest."""
_FAILURES: Final = ("= FAILURES =", "= ERRORS =")
_WIDTH: Final = 17
_INTERRUPTED: Final = 130


@dataclass(frozen=True)
class Ended:
    """A step that has ended: its make target, what it does, its exit status and time, and its output."""

    target: str
    title: str
    status: int
    seconds: float
    log: Path

    @property
    def verdict(self) -> str:
        """Its result in words."""
        return f"{'FAILED' if self.status else 'ok'} after {self.seconds:.0f} s"


class LogFollower:
    """Prints what is added to the logs in a folder, by whole lines with the name of the step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: defaultdict[Path, int] = defaultdict(int)

    def print_new(self) -> None:
        """Print the new lines of each log."""
        for log in sorted(self._folder.glob("*.log")):
            with log.open("rb") as file:
                file.seek(self._read[log])
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[log] += len(whole) + len(newline)
            for line in whole.decode(errors="replace").splitlines():
                say(log.stem, line)


def say(target: str, line: str) -> None:
    """Print a line of a step."""
    print(f"{target:{_WIDTH}}| {line}", flush=True)  # noqa: T201 - the output of the command


@dataclass(frozen=True)
class SuiteOutcome:
    """A run that is over: ``left`` are processes that its tests left, ``stopped`` names a signal."""

    ended: Sequence[Ended]
    results: Sequence[Result]
    choice: tiers.Selection
    left: Sequence[str]
    stopped: str
    seconds: float

    @property
    def failed(self) -> list[Ended]:
        """The steps that failed."""
        return [each for each in self.ended if each.status]

    @property
    def status(self) -> int:
        """The exit status of the run."""
        return _INTERRUPTED if self.stopped else int(bool(self.failed or self.left))

    @property
    def lines(self) -> list[str]:
        """The report: failures, what ran and what did not, and one last line that says what to do."""
        return [
            *(line for each in self.failed for line in _failure(each)),
            *_titled("processes that tests left running, ended by this run", self.left),
            *_titled("longest files, minutes", results.longest(self.results)[1:]),
            *_titled("steps", [f"{each.target:{_WIDTH}}{each.verdict}" for each in self.ended]),
            *_titled("left out: " + self.choice.why, sorted(self.choice.left_out)),
            "",
            *results.table(self.results),
            "",
            self._time,
            self._counts,
            *results.not_run(self.results, is_root=os.geteuid() == 0),
            *self._verdict,
        ]

    @property
    def _time(self) -> str:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return f"{self.seconds / 60:.1f} minutes, {used.ru_utime + used.ru_stime:.0f} s of processor time"

    @property
    def _counts(self) -> str:
        counts = Counter(each.outcome for each in self.results)
        return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"

    @property
    def _verdict(self) -> list[str]:
        if self.stopped:
            return [f"Stopped by {self.stopped}; not all steps have run."]
        return [f"Failed: {', '.join(each.target for each in self.failed)}"] if self.failed else []


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"== {title}", *lines] if lines else []


def _failure(step: Ended) -> list[str]:
    """The failures of a step, or the end of its output, between two lines that name it."""
    lines = step.log.read_text(errors="replace").splitlines()
    marked = (number for number, line in enumerate(lines) if any(mark in line for mark in _FAILURES))
    return ["", f"== {step.target} failed: {step.title}", *lines[next(marked, -_TAIL) :]]
