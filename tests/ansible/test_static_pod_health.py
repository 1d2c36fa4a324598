"""The processes of a static pod in /proc, its starts, and the last lines of its log."""

import os
import time
from pathlib import Path

import pytest

from ansible_collections.gpushare.nodes.plugins.module_utils.static_pod_health import (
    last_lines,
    processes,
    starts,
)
from ansible_collections.gpushare.nodes.plugins.modules import static_pod_health


def process(proc: Path, pid: int, words: list[str], start: int, state: str = "S") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_text("".join(f"{word}\0" for word in words))
    columns = [state, *["0"] * 18, str(start), "0"]
    (folder / "stat").write_text(f"{pid} (kube scheduler)) {' '.join(columns)}\n")


def test_a_process_is_identified_by_program_argument_and_start(tmp_path: Path) -> None:
    process(tmp_path, 7, ["/usr/local/bin/kube-scheduler", "--config=a"], 300)
    process(tmp_path, 9, ["kube-scheduler"], 200)
    process(tmp_path, 11, ["grep", "kube-scheduler", "--config=a"], 100)
    assert processes("kube-scheduler", proc=str(tmp_path)) == ["9@200", "7@300"]
    assert processes("kube-scheduler", "--config=a", str(tmp_path)) == ["7@300"]


def test_zombies_and_processes_that_exit_meanwhile_are_skipped(tmp_path: Path) -> None:
    process(tmp_path, 7, ["kube-scheduler"], 300, state="Z")
    (tmp_path / "8").mkdir()
    assert processes("kube-scheduler", proc=str(tmp_path)) == []


def test_the_starts_of_a_pod_are_counted_by_the_numbers_of_its_logs(tmp_path: Path) -> None:
    for name in ("pod_1/9.log", "pod_1/10.log", "pod_2/0.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("2026-01-01T00:00:00.0Z stderr F started\n")
    # The kubelet makes the log of a start first.
    (tmp_path / "pod_2/1.log").touch()
    assert starts(f"{tmp_path}/*/*.log") == {f"{tmp_path}/pod_1": 11, f"{tmp_path}/pod_2": 1}
    assert starts(f"{tmp_path}/absent*") == {}


def test_the_newest_log_is_returned_without_the_columns_of_the_runtime(tmp_path: Path) -> None:
    for name, age in (("0.log", 10), ("1.log", 0)):
        lines = [f"2026-01-01T00:00:00.0Z stderr F {name} line {number}" for number in range(20)]
        (tmp_path / name).write_text("\n".join(lines))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    lines = last_lines(f"{tmp_path}/*.log")
    assert (len(lines), lines[-1]) == (8, "1.log line 19")
    (tmp_path / "2.log").touch()
    assert last_lines(f"{tmp_path}/*.log") == lines
    assert last_lines(f"{tmp_path}/absent*") == []


def test_the_last_lines_of_a_pod_that_ends_each_time_may_be_written_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [tmp_path / f"{number}.log" for number in range(3)]
    for log in logs:
        log.write_text("2026-01-01T00:00:00.0Z stderr F started\n")

    def write(seconds: float) -> None:
        del seconds
        with logs[-1].open("a") as log:
            log.write("2026-01-01T00:00:01.0Z stderr F absent.crt: no such file\n")

    monkeypatch.setattr(time, "sleep", write)
    found, problem = static_pod_health.wait(
        {
            "program": "kube-scheduler",
            "argument": "--config=/absent",
            "replaced": [],
            "started": {},
            "urls": [],
            "wait_s": 30,
            "settle_s": 1,
            "logs": f"{tmp_path}/*.log",
        }
    )
    assert found == []
    assert "it has ended 3 times" in problem
    assert last_lines(f"{tmp_path}/*.log")[-1] == "absent.crt: no such file"
