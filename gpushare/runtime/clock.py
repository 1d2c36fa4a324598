"""The clock for promises to other machines, such as a lease."""

import time
from typing import Final

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_time() -> float:
    """Return monotonic seconds that count the time in which the machine was suspended, where Linux has them.

    ``time.monotonic`` and the timers of the event loop stand still then. A virtual machine that its host
    pauses notices nothing: no clock of it runs.
    """
    return time.clock_gettime(_CLOCK)
