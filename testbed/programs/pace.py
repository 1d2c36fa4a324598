"""How long builds take on this machine, learned from those that it has done.

What belongs here: the record of earlier builds, and estimates from it. What does not: the builds
(``testbed.programs.build``).
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from testbed.programs.binaries import Tool

_UNKNOWN: Final = "on 2 cores with an empty Go cache"
_LEARNED: Final = "at the pace of this machine"


class Pace:
    """The seconds of earlier builds, by tool; ``record`` is their file."""

    def __init__(self, record: Path) -> None:
        self._path = record
        self._expected, self._taken = _totals(_read(record))

    @property
    def basis(self) -> str:
        """What the estimates assume."""
        return _LEARNED if self._expected else _UNKNOWN

    def estimate(self, tools: Iterable[Tool]) -> int:
        """Return the expected build time in seconds: that of the table, times the pace of this machine."""
        seconds = sum(tool.seconds for tool in tools)
        return round(seconds * self._taken / self._expected) if self._expected else seconds

    def record(self, tool: Tool, taken: float) -> None:
        """Remember how long a build took.."""
        known = _read(self._path) | {tool.name: (float(tool.seconds), taken)}
        self._path.write_text(json.dumps(known))


def progress(taken: float, estimate: int) -> str:
    """Return how far a build is, and say so where it takes longer than was expected."""
    if taken > estimate:
        return f"{taken:.0f} s, longer than the expected {estimate} s"
    return f"{taken:.0f} s of about {estimate} s"


def _totals(known: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    return sum(each[0] for each in known.values()), sum(each[1] for each in known.values())


def _read(path: Path) -> dict[str, tuple[float, float]]:
    """Return tool → (expected, taken) in seconds; empty if there is no readable record."""
    try:
        found = json.loads(path.read_text())
        return {str(name): (float(first), float(second)) for name, (first, second) in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
