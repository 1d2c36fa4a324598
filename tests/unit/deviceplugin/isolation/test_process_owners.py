"""The containers of processes whose PIDs are reused."""

import os
from pathlib import Path

import pytest

from gpushare.deviceplugin.isolation.process_owners import ProcessOwners
from gpushare.isolation.layout import directory_name
from gpushare.model.readings import ProcessReading

UUID = "GPU-a"
FIRST, SECOND = directory_name(1), directory_name(2)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "state").mkdir()
    return tmp_path / "proc"


def run(proc: Path, pid: int, directory: str, started: int) -> None:
    """Let a process of a container start."""
    number = (proc.parent / "state").stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    (proc / str(pid)).mkdir(exist_ok=True)
    mount = f"36 21 {device} /gpushare/{directory}/region /.gpushare/region rw - tmpfs tmpfs rw\n"
    (proc / str(pid) / "mountinfo").write_text(mount)
    (proc / str(pid) / "status").write_text(f"NSpid:\t{pid}\t7\n")
    between = " ".join("0" for _ in range(18))
    (proc / str(pid) / "stat").write_text(f"{pid} (a ) b) S {between} {started} 0 0\n")


def located(owners: ProcessOwners, *pids: int) -> dict[str, set[int]]:
    """The PIDs by container directory."""
    found = owners.locate({UUID: tuple(ProcessReading(pid, 0) for pid in pids)}).limited[UUID]
    return {directory: {each.pid for each in inner.values()} for directory, inner in found.items()}


def test_a_pid_that_is_reused_belongs_to_the_container_of_its_new_process(proc: Path) -> None:
    owners = ProcessOwners(proc.parent / "state", proc)
    run(proc, 101, FIRST, started=1000)
    assert located(owners, 101) == {FIRST: {101}}
    run(proc, 101, SECOND, started=2000)
    assert located(owners, 101) == {SECOND: {101}}


def test_a_process_that_has_ended_has_no_container(proc: Path) -> None:
    (proc / "2").mkdir()
    (proc / "2" / "comm").write_text("kthreadd\n")
    assert located(ProcessOwners(proc.parent / "state", proc), 101) == {}


def test_the_mounts_of_a_known_process_are_not_read_again(proc: Path) -> None:
    owners = ProcessOwners(proc.parent / "state", proc)
    run(proc, 101, FIRST, started=1000)
    assert located(owners, 101) == {FIRST: {101}}
    (proc / "101" / "mountinfo").unlink()
    assert located(owners, 101) == {FIRST: {101}}
