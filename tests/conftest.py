"""Rules for all tests: order, requirements of the machine, results, and the search time of ``@given``.

``make check`` takes the profile "check": the same few examples each time. The default "full" searches anew in
every run, and longer with ``GPUSHARE_EXAMPLES=2000 pytest tests/property``.
"""

import os
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.support import needs, order, skips
from tools import results

_KIND, _NEEDS = "kind", "needs"
# Pytest's categories of reports; set-up and tear-down that work have the empty one: they count as time alone.
_OUTCOMES = {"passed": "passed", "failed": "failed", "error": "failed", "skipped": "skipped", "": ""}

# The environment of the collection's tests has no Hypothesis.
if find_spec("hypothesis"):
    from hypothesis import settings

    examples = int(os.environ.get("GPUSHARE_EXAMPLES", "100"))
    settings.register_profile("full", deadline=None, max_examples=examples, print_blob=True)
    settings.register_profile("check", deadline=None, max_examples=20, derandomize=True)
    settings.load_profile("full")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files; the tests of a file keep their order."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(str(item.path), []).append(item)
    names = order.ordered(_file_of(name, found) for name, found in files.items())
    items[:] = [item for name in names for item in files[name]]


def _file_of(name: str, items: list[pytest.Item]) -> order.File:
    """Tests that run playbooks are busy: they start a Python process for each task and host."""
    is_busy = any("playbooks" in _needs(item) for item in items)
    return order.File(name, sum(_timeout_s(item) for item in items), is_busy)


def _timeout_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0


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
    needed = _needs(item)
    report.user_properties += [(_KIND, results.kind_of(item.nodeid, needed)), (_NEEDS, needed)]
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
    return results.Result(
        noted[_KIND], outcome, report.duration, report.nodeid, tuple(noted[_NEEDS]), release
    )


def _needs(item: pytest.Item) -> list[str]:
    return [need for marker in item.iter_markers("needs") for need in marker.args]
