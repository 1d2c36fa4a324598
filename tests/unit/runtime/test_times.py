"""The clock for promises to other machines."""

import time

import pytest

from gpushare.runtime.times import boot_time


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has CLOCK_BOOTTIME")
def test_it_counts_the_time_since_the_boot_with_suspensions() -> None:
    before, found, after = (
        time.clock_gettime(time.CLOCK_BOOTTIME),
        boot_time(),
        time.clock_gettime(time.CLOCK_BOOTTIME),
    )
    assert before <= found <= after
