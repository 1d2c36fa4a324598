"""One request at a time, cached for a while."""

import asyncio
from contextlib import suppress

import pytest

from gpushare.errors import SourceError
from gpushare.metricsapi.cache import FetchCache


class Well:
    """Something to fetch from, and a clock."""

    def __init__(self) -> None:
        self.fetched: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.now = 0.0
        self.recent: FetchCache[str, str] = FetchCache(self.fetch, 5, lambda: self.now)

    async def fetch(self, key: str) -> str:
        self.fetched.append(key)
        await self.gate.wait()
        if key == "dry":
            raise SourceError("dry")
        return f"{key}{len(self.fetched)}"


async def test_recently_fetched_values_are_used() -> None:
    well = Well()
    assert await well.recent.get("a") == "a1"
    well.now = 4.9
    assert await well.recent.get("a") == "a1"
    well.now = 5.1
    assert await well.recent.get("a") == "a2"


async def test_keys_are_apart() -> None:
    well = Well()
    assert [await well.recent.get(key) for key in "aba"] == ["a1", "b2", "a1"]


async def test_concurrent_callers_share_one_request() -> None:
    well = Well()
    well.gate.clear()
    asking = [asyncio.create_task(well.recent.get("a")) for _ in range(5)]
    await asyncio.sleep(0)
    well.now = 100  # a fetch that takes long is not begun again
    asking.append(asyncio.create_task(well.recent.get("a")))
    await asyncio.sleep(0)
    well.gate.set()
    assert await asyncio.gather(*asking) == 6 * ["a1"]


async def test_a_cancelled_caller_does_not_affect_others() -> None:
    well = Well()
    well.gate.clear()
    first, second = (asyncio.create_task(well.recent.get("a")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    well.gate.set()
    assert await second == "a1"


async def test_an_error_is_kept_as_long_as_an_answer() -> None:
    well = Well()
    for now, fetches in ((0, 1), (1, 1), (6, 2)):
        well.now = now
        with pytest.raises(SourceError):
            await well.recent.get("dry")
        assert len(well.fetched) == fetches
