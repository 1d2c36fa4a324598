"""How many pods may be evicted to make room: in an hour in all, and of each namespace."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from gpushare.runtime.rate import TokenBucket

_HOUR_S: Final = 3600.0


class EvictionBudget:
    """Both budgets are full at the start, and refill evenly."""

    def __init__(
        self, per_hour: int, namespace_per_hour: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._all = TokenBucket(per_hour / _HOUR_S, per_hour, clock)
        self._per_hour = per_hour
        self._most = namespace_per_hour
        self._clock = clock
        self._namespaces: dict[str, TokenBucket] = {}

    def refusal(self, namespaces: Iterable[str]) -> str:
        """Why one pod of each of these namespaces may not be evicted now; empty if they may.

        A plan is carried out whole or not at all, so all its victims count at once.
        """
        wanted = Counter(namespaces)
        if self._all.left < wanted.total():
            return f"at most {self._per_hour} pods are evicted in an hour"
        if any(self._of(name).left < count for name, count in wanted.items()):
            return f"at most {self._most} pods of one namespace are evicted in an hour"
        return ""

    def take(self, namespace: str) -> None:
        """Count the eviction of one pod."""
        self._all.take()
        self._namespaces = {name: each for name, each in self._namespaces.items() if not each.full}
        self._of(namespace).take()

    def _of(self, namespace: str) -> TokenBucket:
        found = self._namespaces.get(namespace)
        if found is None:
            found = TokenBucket(self._most / _HOUR_S, self._most, self._clock)
            self._namespaces[namespace] = found
        return found
