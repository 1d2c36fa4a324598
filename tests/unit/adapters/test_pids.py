import os
from pathlib import Path

import pytest

from gpushare.adapters.pids import inner_pids


def test_a_process_in_no_namespace_of_its_own_calls_itself_as_the_host_does() -> None:
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
def test_the_innermost_number_is_what_it_calls_itself(
    tmp_path: Path, status: str, found: dict[int, int]
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text(status)
    assert inner_pids([7, 8], tmp_path) == found
