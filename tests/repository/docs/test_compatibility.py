"""The page of compatibility: counted from results of tests, and equal to the stored ones."""

import json
from collections.abc import Sequence

import pytest

from tools.compatibility import DATA, PAGE, counted, page, rows
from tools.suite.results import ROLES, Result

STORED = json.loads(DATA.read_text())
EACH = [
    *(
        Result("kind", "passed", 1, f"tests/{file}::test_a{case}", needs, release)
        for file, case, needs, release in (
            ("integration/test_stories.py", "[1.22-policy]", ("kubelet", "images"), ""),
            ("integration/test_stories.py", "[1.37]", (), "1.37"),
            ("integration/test_chart.py", "", (), ""),
            ("integration/test_cgroup_v2.py", "", ("second-kernel",), ""),
            ("integration/test_pulumi.py", "", (), ""),
            ("integration/test_container_devices.py", "", (), ""),
            ("integration/test_prometheus_adapter.py", "", ("prometheus",), ""),
            ("e2e/test_managed.py", "_prometheus", ("kubelet", "images"), ""),
        )
    ),
    Result(ROLES, "passed", 1, "molecule"),
]


def passed(found: Sequence[Result], program: str) -> list[int]:
    return [each["passed"] for each in counted(found) if each["program"].startswith(program)]


def test_each_release_of_kubernetes_counts_its_own_tests() -> None:
    assert passed(EACH, "Kubernetes") == [7, 1]


def test_a_test_counts_for_each_program_that_it_needs() -> None:
    more = Result("kind", "passed", 1, "tests/integration/test_a.py::test_b", ("kubelet", "playbooks"))
    assert passed([*EACH, more], "containerd") == [3]
    assert passed([*EACH, more], "ansible-core") == [2]


def test_set_up_and_skipped_tests_do_not_count() -> None:
    more = [Result(ROLES, outcome, 1, "molecule") for outcome in ("", "skipped")]
    assert passed([*EACH, *more], "ansible-core") == [1]


def test_a_run_with_a_failure_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1 tests failed, for example tests/a\.py::test_b"):
        counted([*EACH, Result("kind", "failed", 1, "tests/a.py::test_b")])


def test_a_run_without_a_part_is_refused_with_its_name() -> None:
    with pytest.raises(ValueError, match="no test ran with ansible-core"):
        counted([each for each in EACH if each.kind != ROLES])


def test_the_page_is_written_from_the_stored_results() -> None:
    assert PAGE.read_text() == page(STORED)


def test_the_stored_rows_are_those_of_the_present_versions() -> None:
    """After a change of a version, the results of the next run of all tests are stored."""
    found = [(each["program"], each["version"]) for each in STORED["rows"]]
    assert found == [(each.program, each.version) for each in rows()]
