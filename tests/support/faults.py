"""Rows of the fault table in ``docs/project/faults.md``: each is what one test has shown.

What belongs here: the marker of such tests, and the result that they record. What does not: faults
(``tests.support.fixtures.faults``), and the page (``tools.faults``).
"""

import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from devkit.waiting import timeout_factor
from testbed import until
from tests.support.history import Entry, has_units, overcommits
from tools.faults import RESULTS


@dataclass(frozen=True)
class Result:
    """One row. ``recovery_s`` counts from the end of the fault, or from the fault if it is an event."""

    test: str
    """The file of the test."""
    fault: str
    component: str
    over_commits: int
    lost_reservations: int
    recovery_s: float
    recovered: str


def fault(name: str, *, component: str) -> pytest.MarkDecorator:
    """Mark a test that proves a row: the fault, and the component that it hits."""
    return pytest.mark.fault(name, component)


class FaultRow:
    """The row of the running test. The test ends with ``proved``."""

    def __init__(self, test: str, name: str, component: str) -> None:
        self._test, self._name, self._component = test, name, component
        self._recovery: tuple[float, str] | None = None

    async def recovers(
        self, condition: Callable[[], Awaitable[object]], what: str, *, since: float, within_s: float
    ) -> None:
        """Wait until the condition is true, and note the seconds since ``since`` (monotonic)."""
        await until(condition, what, within_s)
        self.recovered(time.monotonic() - since, what, within_s=within_s)

    def recovered(self, recovery_s: float, what: str, *, within_s: float) -> None:
        """Note the time of recovery; the longest counts. A run that overloads its machine may take longer."""
        assert recovery_s <= within_s * timeout_factor()
        if self._recovery is None or recovery_s > self._recovery[0]:
            self._recovery = recovery_s, what

    def proved(self, over_commits: int, lost: int) -> None:
        """Assert that no GPU was over-committed and no reservation was lost; store the row if wanted."""
        assert (over_commits, lost) == (0, 0)
        assert self._recovery is not None, "the test noted no recovery"
        seconds, what = self._recovery
        row = Result(self._test, self._name, self._component, over_commits, lost, round(seconds, 1), what)
        if path := os.environ.get(RESULTS):
            with Path(path).open("a") as results:
                results.write(json.dumps(asdict(row)) + "\n")


def moments_of_overcommit(history: Iterable[Entry], size: int) -> int:
    """The number of moments at which a GPU of ``size`` units was over-committed.

    Fails if no pod was ever bound, since the history would prove nothing.
    """
    entries = list(history)
    assert any(has_units(pod) for _, pod in entries), "the history has no bound pod"
    return len(overcommits(entries, size))


def row_of(request: pytest.FixtureRequest) -> FaultRow:
    """The row of the test that requests it."""
    marker = request.node.get_closest_marker("fault")
    assert marker, "the test has no marker @fault"
    name, component = marker.args
    file = Path(str(request.node.path)).relative_to(Path(__file__).parents[2])
    return FaultRow(str(file), name, component)
