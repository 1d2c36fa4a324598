"""Waiting for work that must come to its end."""

import asyncio

import pytest

from testbed.system.waiting import finish


async def test_work_that_is_cancelled_while_it_is_finished_comes_to_its_end_first() -> None:
    begun, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go.wait()
        done.set()

    task = asyncio.create_task(finish(work()))
    await begun.wait()
    task.cancel()
    # The cancellation is delivered before the work may go on.
    await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


async def test_finished_work_gives_its_result_or_its_error() -> None:
    async def five() -> int:
        return 5

    async def fail() -> None:
        raise ValueError("no")

    assert await finish(five()) == 5
    with pytest.raises(ValueError, match="no"):
        await finish(fail())
