import os
from pathlib import Path

import pytest

from gpushare.adapters.pids import command_of, hosts_proc, inner_pids, shows_host, start_of


def test_a_process_in_the_host_namespace_has_its_host_pid() -> None:
    mine = os.getpid()
    assert inner_pids([mine], Path("/proc")) == {mine: mine}


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("Name:\tx\nNStgid:\t7\t1\nNSpid:\t7\t3\t12\nNSpgid:\t7\t9\t9\n", {7: 12}),
        ("Name:\tNSpid: 5\nNSpid:\t7\n", {7: 7}),
        ("Name:\tof a kernel before 4.1\nPid:\t7\n", {}),
    ],
)
def test_the_innermost_number_is_the_pid_in_the_container(
    tmp_path: Path, status: str, found: dict[int, int]
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text(status)
    assert inner_pids([7, 8], tmp_path) == found


@pytest.mark.parametrize(("namespace", "seen"), [("pid:[4026531836]", True), ("pid:[4026532198]", False)])
def test_the_hosts_processes_are_seen_from_the_first_namespace_alone(
    tmp_path: Path,
    namespace: str,
    seen: bool,  # noqa: FBT001
) -> None:
    assert hosts_proc(tmp_path) is None
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "pid").symlink_to(namespace)
    assert hosts_proc(tmp_path) == (tmp_path if seen else None)


@pytest.mark.parametrize(("comm", "shown"), [("kthreadd\n", True), ("sh\n", False), (None, False)])
def test_the_threads_of_the_kernel_are_among_the_processes_of_the_host(
    tmp_path: Path,
    comm: str | None,
    shown: bool,  # noqa: FBT001
) -> None:
    if comm:
        (tmp_path / "2").mkdir()
        (tmp_path / "2" / "comm").write_text(comm)
    assert shows_host(tmp_path) is shown


@pytest.mark.parametrize(
    ("comm", "found"),
    [(b"two words\n", "two words"), (b"a\nb\x1b[2J\xff\n", "a?b?[2J\ufffd"), (b"\n", "?")],
)
def test_a_process_is_called_by_what_can_be_printed_of_its_name(
    tmp_path: Path, comm: bytes, found: str
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "comm").write_bytes(comm)
    assert command_of(7, tmp_path) == found


def test_a_process_that_has_ended_is_called_nothing(tmp_path: Path) -> None:
    assert command_of(7, tmp_path) == "?"


def test_a_process_has_one_start_time() -> None:
    mine, proc = os.getpid(), Path("/proc")
    assert int(start_of(mine, proc)) > 0
    assert start_of(mine, proc) == start_of(mine, proc)


@pytest.mark.parametrize("stat", [None, "", "7 (cut off) S 1 2\n"])
def test_a_process_that_has_ended_has_no_start_time(tmp_path: Path, stat: str | None) -> None:
    if stat is not None:
        (tmp_path / "7").mkdir()
        (tmp_path / "7" / "stat").write_text(stat)
    assert start_of(7, tmp_path) == ""
