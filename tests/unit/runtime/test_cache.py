"""One request at a time, cached for a while."""

import asyncio
from contextlib import suppress

import pytest

from gpushare.errors import SourceError
from gpushare.runtime.cache import FetchCache


class Upstream:
    """A FAKE of what is cached, with a clock."""

    def __init__(self) -> None:
        self.fetched: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.now = 0.0
        self.recent: FetchCache[str, str] = FetchCache(self.fetch, 5, lambda: self.now)

    async def fetch(self, key: str) -> str:
        self.fetched.append(key)
        await self.gate.wait()
        if key == "fails":
            raise SourceError("fails")
        return f"{key}{len(self.fetched)}"


async def test_recently_fetched_values_are_used() -> None:
    upstream = Upstream()
    assert await upstream.recent.get("a") == "a1"
    upstream.now = 4.9
    assert await upstream.recent.get("a") == "a1"
    upstream.now = 5.1
    assert await upstream.recent.get("a") == "a2"


async def test_keys_are_cached_separately() -> None:
    upstream = Upstream()
    assert [await upstream.recent.get(key) for key in "aba"] == ["a1", "b2", "a1"]


async def test_concurrent_callers_share_one_request() -> None:
    upstream = Upstream()
    upstream.gate.clear()
    callers = [asyncio.create_task(upstream.recent.get("a")) for _ in range(5)]
    await asyncio.sleep(0)
    upstream.now = 100  # a slow fetch is not repeated
    callers.append(asyncio.create_task(upstream.recent.get("a")))
    await asyncio.sleep(0)
    upstream.gate.set()
    assert await asyncio.gather(*callers) == 6 * ["a1"]


async def test_a_cancelled_caller_does_not_affect_others() -> None:
    upstream = Upstream()
    upstream.gate.clear()
    first, second = (asyncio.create_task(upstream.recent.get("a")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    upstream.gate.set()
    assert await second == "a1"


async def test_errors_are_cached_as_long_as_results() -> None:
    upstream = Upstream()
    for now, fetches in ((0, 1), (1, 1), (6, 2)):
        upstream.now = now
        with pytest.raises(SourceError):
            await upstream.recent.get("fails")
        assert len(upstream.fetched) == fetches
