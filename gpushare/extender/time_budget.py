"""A share of the time that may be spent on something, such as waits in the serial cycle of the scheduler."""

import time
from collections.abc import Callable


class TimeBudget:
    """``share`` of the time accrues, up to ``most_s`` seconds; it starts full."""

    def __init__(self, share: float, most_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._most_s = most_s
        self._clock = clock
        self._left_s = most_s
        self._at = clock()

    def allows(self, seconds: float) -> bool:
        """Whether that many seconds are left."""
        now = self._clock()
        self._left_s = min(self._most_s, self._left_s + self._share * (now - self._at))
        self._at = now
        return self._left_s >= seconds

    def spend(self, seconds: float) -> None:
        """Take seconds, also more than are left."""
        self._left_s -= seconds
