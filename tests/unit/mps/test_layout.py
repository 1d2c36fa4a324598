from pathlib import Path

from gpushare.contract import SHM
from gpushare.mps.layout import MpsDirs, logs_of, mounted, pipes_of, ready_lock_of


def test_each_gpu_has_a_separate_directory() -> None:
    state = Path("/run/gpushare-mps")
    assert {pipes_of(state, "GPU-1"), logs_of(state, "GPU-1"), ready_lock_of(state, "GPU-1")} == {
        state / "GPU-1" / "pipe",
        state / "GPU-1" / "log",
        state / "GPU-1" / "up",
    }


def test_programs_get_the_pipes_of_their_gpu_and_the_memory_that_all_share() -> None:
    assert mounted(MpsDirs(), "GPU-1") == {
        "/.gpushare/mps": "/run/gpushare-mps/GPU-1/pipe",
        SHM: f"{SHM}/gpushare-mps",
    }
