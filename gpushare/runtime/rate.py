"""A limit of events per second, for each key."""

import time
from collections.abc import Callable


class RateLimit:
    """``most`` events at once, and ``per_s`` more every second."""

    def __init__(self, per_s: float, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._most = most
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> bool:
        """Take one event, if there is one."""
        left = self._now(key)
        if left < 1:
            return False
        self._left[key] = (left - 1, self._clock())
        return True

    def give_back(self, key: str) -> None:
        """Return one event."""
        self._left[key] = (min(self._most, self._now(key) + 1), self._clock())

    def forget_full(self) -> None:
        """Forget the keys that have all of their events."""
        self._left = {key: each for key, each in self._left.items() if self._now(key) < self._most}

    def _now(self, key: str) -> float:
        left, at = self._left.get(key, (self._most, 0.0))
        return min(self._most, left + self._per_s * (self._clock() - at))
