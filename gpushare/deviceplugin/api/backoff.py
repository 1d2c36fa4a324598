"""Exponential backoff with jitter for failed writes, per object."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from gpushare.errors import ApiError

_MAX_DOUBLINGS: Final = 16
_DENIED: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)
"""Errors that persist until an administrator changes permissions or admission rules."""


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Seconds between attempts: initial, maximum, and after the API server has denied an optional write."""

    initial_s: float = 0.25
    max_s: float = 30.0
    denied_s: float = 300.0


def _jitter() -> float:
    return random.uniform(0.5, 1)  # noqa: S311 - jitter


class WriteBackoff:
    """Recent failures by key. Failures long ago do not count.

    ``clock`` returns seconds, ``jitter`` the factor of a pause.
    """

    def __init__(
        self,
        policy: BackoffPolicy,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = _jitter,
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._jitter = jitter
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def wait_s(self, key: str) -> float:
        """Seconds until the next attempt is allowed; 0 for now."""
        return max(0.0, self._until.get(key, 0.0) - self._clock())

    def failed(self, key: str, error: ApiError | None = None, *, optional: bool = True) -> float:
        """Count a failure; returns the seconds until the next attempt.

        A denied write that is not optional is repeated as after any other error: an API server that has just
        started denies every request until it has read the roles.
        """
        now = self._clock()
        expired = now - self._until.get(key, now) > 2 * self._policy.max_s
        failures = 0 if expired else min(self._failures.get(key, 0), _MAX_DOUBLINGS)
        pause_s: float = min(self._policy.max_s, self._policy.initial_s * 2**failures)
        pause_s *= self._jitter()
        if error is not None:
            denied = optional and error.status in _DENIED
            pause_s = max(pause_s, error.retry_after_s, self._policy.denied_s if denied else 0)
        self._failures[key] = failures + 1
        self._until[key] = now + pause_s
        return pause_s

    def succeeded(self, key: str) -> None:
        """Reset the backoff of this key."""
        self._failures.pop(key, None)
        self._until.pop(key, None)
