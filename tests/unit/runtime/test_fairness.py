"""The order of turns."""

import asyncio
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.runtime.fairness import FairQueue, FairSlots, TimeSlices, source_of
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2", True),
    ],
)
def test_a_source_is_an_ipv4_address_or_an_ipv6_network(one: str, other: str, same: bool) -> None:  # noqa: FBT001
    assert (source_of(one) == source_of(other)) is same


def test_sources_take_turns_whatever_they_have() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(100):
        queue.put("stranger", number)
    queue.put("scheduler", 0)
    assert [queue.next()[0] for _ in range(3)] == ["stranger", "scheduler", "stranger"]
    assert queue.count("stranger") == 98
    queue.put("scheduler", 1)
    assert [queue.next() for _ in range(2)] == [("stranger", 2), ("scheduler", 1)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers())))
def test_each_item_comes_once_and_those_of_a_source_in_their_order(items: list[tuple[str, int]]) -> None:
    queue: FairQueue[int] = FairQueue()
    for source, item in items:
        queue.put(source, item)
    found = []
    while queue:
        found.append(queue.next())
    for source in "abc":
        assert [item for item in found if item[0] == source] == [each for each in items if each[0] == source]


async def test_one_waiter_passes_in_a_turn_of_the_event_loop_and_sources_alternate() -> None:
    gate, passed = TimeSlices(), []

    async def job(source: str) -> None:
        for _ in range(3):
            await gate.turn(source)
            passed.append(source)

    jobs = [asyncio.create_task(job(source)) for source in ("stranger", "stranger", "scheduler")]
    turns = 0
    while not all(each.done() for each in jobs):
        await asyncio.sleep(0)
        turns += 1
        assert len(passed) <= turns
    assert "scheduler" in passed[:2]
    assert passed[:6].count("scheduler") == 3


async def test_a_waiter_that_gives_up_does_not_keep_the_others() -> None:
    gate = TimeSlices()
    waiters = [asyncio.create_task(gate.turn("a")) for _ in range(3)]
    await asyncio.sleep(0)
    waiters[1].cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(waiters[0], waiters[2])


async def begun(slots: FairSlots, source: str, count: int) -> tuple[int, list[asyncio.Task[None]]]:
    """How many of the jobs begin at once, and all of them."""
    jobs = [asyncio.create_task(slots.take(source)) for _ in range(count)]
    await asyncio.sleep(0)
    return sum(job.done() for job in jobs), jobs


async def test_a_source_has_as_many_jobs_as_are_free_for_the_others() -> None:
    slots = FairSlots(8)
    assert (await begun(slots, "a", 10))[0] == 4
    assert (await begun(slots, "b", 10))[0] == 2
    assert (await begun(slots, "c", 10))[0] == 1


async def test_the_end_of_a_job_begins_one_that_waits() -> None:
    slots = FairSlots(4)
    _, jobs = await begun(slots, "a", 4)
    jobs[2].cancel()
    slots.give_back("a")
    await asyncio.wait_for(jobs[3], 5)
    assert (await begun(slots, "b", 1))[0] == 1


async def test_a_job_that_is_cancelled_as_it_begins_leaves_its_place() -> None:
    slots = FairSlots(2)
    _, (_, second, third) = await begun(slots, "a", 3)
    slots.give_back("a")
    second.cancel()
    await asyncio.wait_for(third, 5)


async def test_a_request_waits_for_one_slice_although_several_jobs_compute() -> None:
    turns = TimeSlices()
    slices = 0
    before_request: list[int] = []

    async def job() -> None:
        nonlocal slices
        while True:
            await turns.turn()
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


class Timed:
    """A clock that the steps advance, and the pauses between slices."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def clock(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def steps(self, *seconds: float) -> Generator[None, None, str]:
        """Steps of these durations."""
        for each in seconds:
            self.now += each
            yield
        return "done"


async def test_steps_run_in_slices_of_two_milliseconds() -> None:
    time, turns = Timed(), 0

    class Gate(TimeSlices):
        async def turn(self, source: str = "") -> None:
            nonlocal turns
            turns += 1
            await super().turn(source)

    gate = Gate(time.clock)
    assert await gate.run(time.steps(*[0.0005] * 8)) == "done"
    assert turns == 3
    assert await gate.run(time.steps(0.01, 0.01)) == "done"
    assert turns == 6


async def test_background_work_may_leave_most_of_the_time_to_other_work() -> None:
    time = Timed()
    gate = TimeSlices(time.clock, time.pause)
    assert await gate.run(time.steps(0.001, 0.001, 0.003), idle_per_work=9) == "done"
    assert time.pauses == pytest.approx([0.018, 0.027, 0])


async def test_while_requests_arrive_a_waiter_passes_every_ten_milliseconds() -> None:
    time, asked, arriving = Timed(), 0, True

    def urgent() -> bool:
        nonlocal asked
        asked += 1
        return arriving

    gate = TimeSlices(time.clock)
    gate.yield_to(urgent)
    async with asyncio.timeout(20):
        await gate.turn()
        for each in (0.01, 0.01):
            waiter = asyncio.create_task(gate.turn())
            before = asked
            await until(lambda before=before: asked >= before + 3)  # type: ignore[misc]
            assert not waiter.done()
            time.now += each
            await waiter
        waiter = asyncio.create_task(gate.turn())
        await until(lambda: asked >= 3)
        arriving = False
        await waiter


async def test_jobs_of_one_source_take_turns() -> None:
    turns, order = TimeSlices(), []

    async def job(name: str) -> None:
        for _ in range(3):
            await turns.turn()
            order.append(name)

    await asyncio.gather(job("a"), job("b"))
    assert order == ["a", "b"] * 3
