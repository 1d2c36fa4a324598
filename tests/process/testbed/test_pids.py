"""Leftover processes are found and killed, and no other process ever is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devkit import pids
from devkit.pids import PidRecord, ProcEntry, leftovers, parse_stat

BOOT = "boot"
RECORD = PidRecord(pid=100, start_ticks=5000, boot_id=BOOT)
LEADER = ProcEntry(pid=100, session=100, start_ticks=5000, marked=True)
CHILD = ProcEntry(pid=101, session=100, start_ticks=5001, marked=True)
STRANGER = ProcEntry(pid=102, session=102, start_ticks=5002, marked=False)


def test_a_recorded_process_and_its_children_are_leftovers() -> None:
    assert leftovers(RECORD, [STRANGER, LEADER, CHILD], BOOT) == [LEADER, CHILD]


def test_children_are_leftovers_after_their_parent_ended() -> None:
    assert leftovers(RECORD, [CHILD], BOOT) == [CHILD]


def test_a_reused_pid_is_not_a_leftover() -> None:
    reused = ProcEntry(pid=100, session=100, start_ticks=9000, marked=False)
    others = ProcEntry(pid=103, session=100, start_ticks=9001, marked=False)
    assert leftovers(RECORD, [reused, others], BOOT) == []


def test_a_session_with_a_reused_pid_and_no_leader_is_not_a_leftover() -> None:
    assert leftovers(RECORD, [ProcEntry(pid=103, session=100, start_ticks=9001, marked=False)], BOOT) == []


def test_nothing_is_left_from_before_the_last_boot() -> None:
    assert leftovers(RECORD, [LEADER], "another boot") == []


def test_a_command_name_may_contain_spaces_and_parentheses() -> None:
    fields = " ".join(str(number) for number in range(5, 53))
    stat = parse_stat(f"7 (a) R (b) T 1 2 {fields}")
    assert (stat.state, stat.session, stat.start_ticks) == ("T", 5, 21)


@pytest.mark.parametrize("content", ["", "{}", '{"pid": 1, "other": 2}', "[1]"])
def test_an_unreadable_pid_file_is_no_record(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    assert pids.read(path) is None


def test_a_sweep_kills_a_leftover_and_deletes_its_record(tmp_path: Path) -> None:
    process = sleeper(tmp_path)
    pids.write(tmp_path / "pids" / "etcd.json", pids.record_of(process.pid))
    assert pids.sweep(tmp_path) == ["etcd"]
    assert process.wait() == -signal.SIGKILL
    assert pids.running(tmp_path) == {}
    assert not (tmp_path / "pids" / "etcd.json").exists()


def test_a_sweep_does_not_kill_a_process_that_reuses_the_pid(tmp_path: Path) -> None:
    process = sleeper(tmp_path)
    mine = pids.record_of(process.pid)
    pids.write(tmp_path / "pids" / "etcd.json", PidRecord(mine.pid, mine.start_ticks - 1, mine.boot_id))
    try:
        assert pids.sweep(tmp_path) == []
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def sleeper(folder: Path) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, pids.MARK: str(folder)}
    return subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, env=environment)


def with_child_apart(mark: Path) -> "subprocess.Popen[bytes]":
    """A shell in a new session that prints the PID of its child in another process group."""
    return subprocess.Popen(
        ["/bin/bash", "-c", "set -m; sleep 60 & echo $!; wait"],
        env={**os.environ, pids.MARK: str(mark)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def test_a_session_ends_with_children_that_left_its_process_group(tmp_path: Path) -> None:
    with with_child_apart(tmp_path) as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        assert os.getpgid(child) != os.getpgid(shell.pid)
        pids.end_session(shell.pid, tmp_path / "another")
        assert shell.poll() is None
        pids.end_session(shell.pid, tmp_path)
        assert shell.wait() == -signal.SIGKILL
    assert not Path(f"/proc/{child}").exists() or pids.state_of(child) == "Z"


def test_a_process_is_suspended_when_all_its_threads_are() -> None:
    program = (
        "import threading as t, time; t.Thread(target=time.sleep, args=(60,)).start(); print(1, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:  # noqa: S603
        assert child.stdout
        child.stdout.readline()
        assert not pids.is_suspended(child.pid)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert pids.is_suspended(child.pid)
        child.kill()
