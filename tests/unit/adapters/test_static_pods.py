import os
from pathlib import Path
from ssl import SSLContext

import pytest

from devkit.ports import free_ports
from gpushare.adapters.static_pods import last_log_lines, problem_of, processes, starts, unverified


def process(proc: Path, pid: int, words: list[str], start: int) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_text("".join(f"{word}\0" for word in words))
    columns = ["S", *["0"] * 18, str(start), "0"]
    (folder / "stat").write_text(f"{pid} (kube scheduler)) {' '.join(columns)}\n")


def test_a_process_is_known_by_its_program_the_end_of_its_command_and_its_start(tmp_path: Path) -> None:
    process(tmp_path, 7, ["/usr/local/bin/kube-scheduler", "--v=2", "--config=a"], 300)
    process(tmp_path, 9, ["kube-scheduler", "--v=2"], 200)
    process(tmp_path, 11, ["grep", "kube-scheduler", "--config=a"], 100)
    assert processes("kube-scheduler", [], tmp_path) == {"9@200", "7@300"}
    assert processes("kube-scheduler", ["--config=a"], tmp_path) == {"7@300"}
    assert processes("kube-scheduler", ["--v=2"], tmp_path) == {"9@200"}


def test_zombies_and_processes_that_end_meanwhile_do_not_count(tmp_path: Path) -> None:
    process(tmp_path, 7, [], 300)
    (tmp_path / "8").mkdir()
    assert processes("kube-scheduler", [], tmp_path) == set()


def test_the_newest_log_counts_without_the_runtimes_columns(tmp_path: Path) -> None:
    folder = tmp_path / "kube-system_kube-scheduler-cp_1" / "kube-scheduler"
    folder.mkdir(parents=True)
    for name, age in (("0.log", 10), ("1.log", 0)):
        lines = [f"2026-01-01T00:00:00.0Z stderr F {name} line {number}" for number in range(20)]
        (folder / name).write_text("\n".join(lines))
        os.utime(folder / name, (1000 - age, 1000 - age))
    reported = last_log_lines(tmp_path, "kube-system_kube-scheduler")
    assert (len(reported), reported[-1]) == (5, "1.log line 19")
    assert last_log_lines(tmp_path, "kube-system_other") == []
    (folder / "2.log").touch()
    assert last_log_lines(tmp_path, "kube-system_kube-scheduler") == reported


def test_the_starts_of_a_pod_that_have_logged_are_counted_by_the_numbers_of_the_logs(tmp_path: Path) -> None:
    for name in ("cp_1/kube-scheduler/9", "cp_1/kube-scheduler/10", "cp_2/kube-scheduler/0"):
        file = tmp_path / f"kube-system_kube-scheduler-{name}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("2026-01-01T00:00:00.0Z stderr F started\n")
    file.with_name("0.log.20260101-000000").write_text("rotated\n")
    # The kubelet makes the log of a start first.
    file.with_name("1.log").touch()
    found = starts(tmp_path, "kube-system_kube-scheduler")
    folder = f"{tmp_path}/kube-system_kube-scheduler"
    assert found == {f"{folder}-cp_1/kube-scheduler": 11, f"{folder}-cp_2/kube-scheduler": 1}
    assert starts(tmp_path, "kube-system_other") == {}


@pytest.fixture
def context() -> SSLContext:
    return unverified()


def test_a_missing_server_is_a_problem_that_names_the_url(context: SSLContext) -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}/version"
    assert problem_of(url, context, timeout_s=1) == f"{url}: Connection refused"


def test_an_unknown_host_is_a_problem(context: SSLContext) -> None:
    assert problem_of("http://host.invalid/", context, timeout_s=1).startswith("http://host.invalid/: ")
