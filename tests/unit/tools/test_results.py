"""The table of what ran."""

from pathlib import Path

import pytest

from tools.suite.results import FOLDER, ROLES, Result, kind_of, longest, read, record, seconds, table


@pytest.mark.parametrize(
    ("test", "needs", "kind"),
    [
        ("tests/unit/test_a.py::test_b", [], "functions, formats and invariants"),
        ("tests/integration/test_a.py::test_b", [], "real control planes"),
        ("tests/integration/faults/test_a.py::test_b", ["kubelet"], "real kubelets and containers"),
        ("tests/integration/test_a.py::test_b", ["kubelet", "hosts"], "playbooks on systemd hosts"),
        ("tests/e2e/test_a.py::test_b", ["kubelet", "hosts"], "whole system from images"),
        ("test_a.py::test_b", ["kubelet"], "other"),
    ],
)
def test_what_a_test_proves_depends_on_its_folder_and_its_needs(
    test: str, needs: list[str], kind: str
) -> None:
    assert kind_of(test, needs) == kind


def test_the_results_of_all_commands_are_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "results"))
    planes = "real control planes"
    record([Result(planes, "passed", 30), Result(planes, "failed", 60)])
    record([Result(ROLES, "passed", 120), Result(planes, "skipped", 0)])
    assert [line.split() for line in table(read(tmp_path / "results"))] == [
        ["what", "ran", "passed", "failed", "skipped", "minutes"],
        [*planes.split(), "1", "1", "1", "1.5"],
        [*ROLES.split(), "1", "0", "0", "2.0"],
        ["all", "2", "1", "1", "3.5"],
    ]


def test_set_up_counts_as_time_alone() -> None:
    lines = table([Result(ROLES, "passed", 60), Result(ROLES, "", 60)])
    assert lines[-1].split() == ["all", "1", "0", "0", "2.0"]


def test_the_files_whose_tests_took_longest_come_first() -> None:
    found = [("passed", 60, "a"), ("", 30, "b"), ("passed", 60, "b")]
    lines = longest(Result(ROLES, *each) for each in found)
    assert [line.split() for line in lines[1:]] == [["1.5", "b"], ["1.0", "a"]]


def test_the_times_of_long_files_are_those_with_the_default_release() -> None:
    found = [
        Result("a", "passed", 1.4, "tests/integration/test_a.py::test_b"),
        Result("a", "", 2.4, "tests/integration/test_a.py::test_b"),
        Result("a", "passed", 9, "tests/integration/test_a.py::test_b", "1.37"),
        Result("a", "passed", 9, "tests/unit/test_a.py::test_b"),
    ]
    assert seconds(found) == {"tests/integration/test_a.py": 4}


def test_without_a_folder_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    record([Result(ROLES, "passed", 1)])
