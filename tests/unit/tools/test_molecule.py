"""Molecule scenarios: their choice, and the summary of a run."""

import subprocess
from pathlib import Path

import pytest

from tools.molecule import Outcome, Run, accepted, removed, reserved, runs, summary

VERIFIED = "SKIPPED [2] tests/test_a.py:7: no kernel modules in a container\n=== 3 passed, 2 skipped ==="


def test_by_default_all_scenarios_run_and_one_also_with_the_old_core() -> None:
    chosen = [run.title for run in runs([])]
    assert len(chosen) == len(set(chosen))
    assert [title for title in chosen if "legacy" in title]


def test_the_error_for_an_unknown_scenario_names_it() -> None:
    with pytest.raises(SystemExit, match="unknown scenario nowhere"):
        runs(["nowhere"])


def test_the_summary_counts_and_explains_skipped_scenarios() -> None:
    reported = summary([Outcome(Run("a"), passed=True, seconds=3, output=VERIFIED)], 3)
    assert reported == [
        "molecule: a: 2 checks skipped: no kernel modules in a container",
        "molecule: 1 scenarios in 3 s, 2 checks skipped",
        "molecule: 1 passed, 0 failed",
    ]


def test_the_last_line_counts_failures() -> None:
    outcomes = [Outcome(Run(name), passed=name == "a", seconds=1, output="") for name in ("a", "b")]
    assert summary(outcomes, 2)[-1] == "molecule: 1 passed, 1 failed"


def test_the_title_of_a_run_with_the_old_core_says_so() -> None:
    assert Run("a", Path("x/legacy/.venv")).title == "a (legacy)"


def test_a_skipped_check_is_a_failure_where_all_tests_are_required() -> None:
    skipping = Outcome(Run("a"), passed=True, seconds=3, output=VERIFIED)
    assert accepted(skipping, required=False)
    assert not accepted(skipping, required=True)
    assert accepted(Outcome(Run("a"), passed=True, seconds=3, output="=== 3 passed ==="), required=True)


def test_an_interrupted_scenario_leaves_no_hosts_and_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: called.append(command[3:]))
    with pytest.raises(KeyboardInterrupt), removed("molecule-0"):
        raise KeyboardInterrupt
    assert called == [
        ["--name=molecule-0", "down"],
        ["down", "--name=molecule-molecule-0", "--ignore-not-found"],
    ]


def test_runs_at_the_same_time_have_different_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    with reserved(2) as first, reserved(1) as second:
        assert (first, second) == (["molecule-0", "molecule-1"], ["molecule-2"])
    with reserved(1) as later:
        assert later == ["molecule-0"]
