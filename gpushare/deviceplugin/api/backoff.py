"""When a write that failed may be tried again: pauses that grow, with jitter, one per object."""

import random
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from gpushare.errors import ApiError

_MAX_DOUBLINGS: Final = 16
_FOR_GOOD: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)
"""What is refused this way will be refused again, until somebody changes the rules."""


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Seconds between tries: the first pause, the longest, and the one after a refusal for good."""

    first_s: float = 0.25
    longest_s: float = 30.0
    forbidden_s: float = 300.0


class Backoff:
    """What has failed lately. A failure that is long past counts no more."""

    def __init__(self, pace: BackoffPolicy) -> None:
        self._pace = pace
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def wait_s(self, key: str) -> float:
        """Seconds until the object may be written, 0 for now."""
        return max(0.0, self._until.get(key, 0.0) - time.monotonic())

    def failed(self, key: str, error: ApiError | None = None) -> float:
        """Returns the seconds until the next try."""
        now = time.monotonic()
        long_past = now - self._until.get(key, now) > 2 * self._pace.longest_s
        failures = 0 if long_past else min(self._failures.get(key, 0), _MAX_DOUBLINGS)
        pause_s: float = min(self._pace.longest_s, self._pace.first_s * 2**failures)
        pause_s *= random.uniform(0.5, 1)  # noqa: S311 - jitter
        if error is not None:
            for_good = error.status in _FOR_GOOD
            pause_s = max(pause_s, error.retry_after_s, self._pace.forbidden_s if for_good else 0)
        self._failures[key] = failures + 1
        self._until[key] = now + pause_s
        return pause_s

    def succeeded(self, key: str) -> None:
        """Nothing stands against the next write."""
        self._failures.pop(key, None)
        self._until.pop(key, None)
