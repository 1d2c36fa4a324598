"""A cache with expiry, and at most one fetch at a time for each key."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


@dataclass(slots=True)
class _Fetch(Generic[T]):
    task: asyncio.Task[T]
    done_at: float = field(default=float("inf"))


class FetchCache(Generic[K, T]):
    """Caches results and errors for ``keep_s`` seconds."""

    def __init__(
        self,
        fetch: Callable[[K], Coroutine[Any, Any, T]],
        keep_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._keep_s = keep_s
        self._clock = clock
        self._fetches: dict[K, _Fetch[T]] = {}

    async def get(self, key: K) -> T:
        """Return the result. Cancelling one caller does not affect the others."""
        cached = self._fetches.get(key)
        if cached is None or self._is_old(cached):
            cached = self._begin(key)
        return await asyncio.shield(cached.task)

    def _begin(self, key: K) -> _Fetch[T]:
        self._fetches = {each: cached for each, cached in self._fetches.items() if not self._is_old(cached)}
        fetch = self._fetches[key] = _Fetch(asyncio.get_running_loop().create_task(self._fetch(key)))

        def done(task: asyncio.Task[T]) -> None:
            fetch.done_at = self._clock()
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it

        fetch.task.add_done_callback(done)
        return fetch

    def _is_old(self, cached: _Fetch[T]) -> bool:
        return self._clock() - cached.done_at >= self._keep_s
