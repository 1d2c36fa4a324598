"""Background work in slices."""

import asyncio

import pytest

from gpushare.runtime.turns import Turns

pytestmark = pytest.mark.timeout(30)


async def test_a_request_waits_for_one_slice_although_several_jobs_compute() -> None:
    turns = Turns()
    slices = 0
    before_request: list[int] = []

    async def job() -> None:
        nonlocal slices
        while True:
            await turns.next()
            slices += 1

    async def request() -> None:
        nonlocal slices
        while True:
            before_request.append(slices)
            slices = 0
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(work) for work in (job(), job(), job(), request())]
    while len(before_request) < 100:
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert max(before_request) == 1
    assert sum(before_request) > 30


async def test_jobs_take_turns() -> None:
    turns, order = Turns(), []

    async def job(name: str) -> None:
        for _ in range(3):
            await turns.next()
            order.append(name)

    await asyncio.gather(job("a"), job("b"))
    assert order == ["a", "b"] * 3


async def test_a_job_that_is_cancelled_holds_up_no_other() -> None:
    turns = Turns()
    waiting = asyncio.create_task(turns.next())
    await asyncio.sleep(0)
    waiting.cancel()
    async with asyncio.timeout(5):
        await turns.next()
