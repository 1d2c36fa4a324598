"""Rules for all tests: signals, time limits, order, slots, requirements of the machine, results, ``@given``.

``make check`` takes the profile "check": the same few examples each time. The default "full" searches anew in
every run, and longer with ``GPUSHARE_EXAMPLES=2000 pytest tests/property``.
"""

import json
import os
import signal
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from devkit.signals import restore_interrupts
from devkit.waiting import timeout_factor
from tests.support import needs, order, skips, slots
from tools.suite import results, tiers

_KIND = "kind"
_ROOT = Path(__file__).parents[1]
_SECONDS: dict[str, int] = json.loads((_ROOT / "tests/support/seconds.json").read_text())
"""The time of each file in a run of all tests, which ``python -m tools.suite.results`` has written."""
_UNKNOWN_S = 60
_SHARED = "worker_bed"
"""The fixture of files that share a control plane (``tests/integration/conftest.py``)."""
_SLOTS = slots.Slots.of_environment()
# Pytest's categories of reports; set-up and tear-down that work have the empty one: they count as time alone.
_OUTCOMES = {"passed": "passed", "failed": "failed", "error": "failed", "skipped": "skipped", "": ""}

# The environment of the collection's tests has no Hypothesis.
if find_spec("hypothesis"):
    from hypothesis import settings

    examples = int(os.environ.get("GPUSHARE_EXAMPLES", "100"))
    settings.register_profile("full", deadline=None, max_examples=examples, print_blob=True)
    settings.register_profile("check", deadline=None, max_examples=20, derandomize=True)
    settings.load_profile("full")


# Tests interrupt programs that they start; those would ignore it in the background of a script.
restore_interrupts()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that leave long tests out (``tests/tiers.toml``)."""
    parser.addoption("--short", action="store_true", help="leave out the long tests")
    parser.addoption(
        "--since", metavar="COMMIT", help="leave out long tests that no change since it concerns"
    )


def pytest_configure() -> None:
    """Tear fixtures down after SIGTERM as after an interrupt: they stop clusters and hosts."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave long tests out if an option says so, and sort the files; the tests of a file keep their order.

    The time limits of tests grow with all other ones.
    """
    _leave_out(config, items)
    _extend(items)
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(str(item.path), []).append(item)
    names = order.ordered(_file_of(name, found) for name, found in files.items())
    items[:] = [item for name in names for item in files[name]]


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    since = config.getoption("since")
    choice = tiers.choose(everything=not (since or config.getoption("short")), since=since)
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        names = [name for marker in item.iter_markers("long") for name in marker.args]
        is_short = item.get_closest_marker("short") is not None
        (left_out if choice.is_left_out(item.nodeid, *names, is_short=is_short) else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def _extend(items: list[pytest.Item]) -> None:
    factor = timeout_factor()
    for item in items:
        marker = item.get_closest_marker("timeout")
        seconds = (
            marker.args[0] if marker else item.config.getoption("timeout") or item.config.getini("timeout")
        )
        item.add_marker(pytest.mark.timeout(float(seconds or 0) * factor), append=False)


def _file_of(name: str, items: list[pytest.Item]) -> order.File:
    """Tests that run playbooks are busy: they start a Python process for each task and host."""
    is_busy = any("playbooks" in _needs(item) for item in items)
    shares_a_bed = any(_SHARED in getattr(item, "fixturenames", ()) for item in items)
    seconds = _SECONDS.get(os.path.relpath(name, _ROOT), _UNKNOWN_S)
    return order.File(name, seconds, is_busy, shares_a_bed)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Have a slot while the tests of a file run. The timeout of a test begins after the wait."""
    _SLOTS.take()
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            _SLOTS.release()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test if the machine lacks what its ``needs`` markers name."""
    for need in _needs(item):
        if reason := needs.missing(need):
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Refuse skips where all tests are required; note in the report what the test proves."""
    report = yield
    skips.refuse(report)
    report.user_properties.append((_KIND, results.kind_of(item.nodeid, _needs(item))))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse skipped modules where all tests are required."""
    report = yield
    skips.refuse(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Record the results for the table of the whole run; those of a worker reach the main process."""
    if hasattr(config, "workerinput"):
        return
    results.record(
        _result(report, outcome)
        for category, outcome in _OUTCOMES.items()
        for report in terminalreporter.stats.get(category, ())
        if isinstance(report, pytest.TestReport)
    )


def _result(report: pytest.TestReport, outcome: str) -> results.Result:
    noted: dict[str, Any] = dict(report.user_properties)
    release = os.environ.get("TESTBED_KUBERNETES", "")
    why = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
    return results.Result(noted[_KIND], outcome, report.duration, report.nodeid, release, why)


def _needs(item: pytest.Item) -> list[str]:
    return [need for marker in item.iter_markers("needs") for need in marker.args]
