"""Limits of rates: token buckets, and one for each key."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

_REFUSALS_PER_S: Final = 10.0
_REFUSALS: Final = 100.0
"""Refused requests that are logged, of each kind: any client may send them."""


class TokenBucket:
    """``per_s`` tokens accrue every second, up to ``most``; it starts full.

    Tokens are what is limited: events, or seconds of something that may take a share of the time.
    """

    def __init__(self, per_s: float, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._most = most
        self._clock = clock
        self._left = most
        self._at = clock()

    @property
    def left(self) -> float:
        """Return the tokens that are left; negative if more were taken than there were."""
        now = self._clock()
        self._left = min(self._most, self._left + self._per_s * (now - self._at))
        self._at = now
        return self._left

    @property
    def full(self) -> bool:
        """Return whether no token is missing."""
        return self.left >= self._most

    def take(self, tokens: float = 1.0) -> None:
        """Take tokens, also more than are left; a negative number gives them back."""
        self._left = min(self._most, self.left - tokens)


class RateLimit:
    """``most`` events of a key at once, and ``per_s`` more every second."""

    def __init__(self, per_s: float, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._new = partial(TokenBucket, per_s, most, clock)
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, key: str) -> bool:
        """Take one event, if there is one."""
        bucket = self._buckets.get(key) or self._buckets.setdefault(key, self._new())
        allowed = bucket.left >= 1
        if allowed:
            bucket.take()
        return allowed

    def give_back(self, key: str) -> None:
        """Return one event."""
        if key in self._buckets:
            self._buckets[key].take(-1)

    def forget_full(self) -> None:
        """Forget the keys that have all of their events."""
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if not bucket.full}


def refusal_log() -> RateLimit:
    """How many refused requests are logged. Metrics count all."""
    return RateLimit(_REFUSALS_PER_S, _REFUSALS)
