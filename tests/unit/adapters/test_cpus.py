"""CPUs of processes and GPUs, as Linux 6.1 shows them in /proc and /sys."""

import os
from pathlib import Path

import pytest

from gpushare.adapters.cpus import cpus_beside, cpus_of, parse_cpus

STATUS = (
    "Name:\tpython3\nPid:\t{pid}\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n"
)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("5", {5}),
        ("", set()),
        ("a-b", set()),
        ("0-", set()),
        ("0-99999999999", set(range((1 << 16) + 1))),
    ],
)
def test_lists_of_the_kernel(text: str, cpus: set[int]) -> None:
    assert parse_cpus(text) == cpus


def test_processes_have_what_the_kernel_shows_and_ended_ones_are_omitted(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text(STATUS.format(pid=7, cpus="2-3"))
    assert cpus_of([7, 8], tmp_path) == {7: {2, 3}}


def test_this_process_has_what_it_may_use() -> None:
    assert cpus_of([os.getpid()], Path("/proc")) == {os.getpid(): os.sched_getaffinity(0)}


def test_the_cpus_beside_a_gpu_are_those_of_its_numa_node(tmp_path: Path) -> None:
    device = tmp_path / "bus" / "pci" / "devices" / "0000:3b:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    node = tmp_path / "devices" / "system" / "node" / "node1"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("4-7\n")
    assert cpus_beside("00000000:3B:00.0", tmp_path) == frozenset({4, 5, 6, 7})
    (node / "cpulist").write_text("\n")
    assert cpus_beside("00000000:3B:00.0", tmp_path) is None
    (device / "numa_node").write_text("-1\n")
    assert cpus_beside("00000000:3B:00.0", tmp_path) is None
    assert cpus_beside("", tmp_path) is None
