"""A call that does not return blocks one thread, and callers wait until their timeout only."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from gpushare.adapters.nvml.worker import Worker
from gpushare.errors import GpuError

TIMEOUT_S = 0.2


@pytest_asyncio.fixture
async def worker() -> AsyncIterator[Worker]:
    made = Worker(TIMEOUT_S)
    yield made
    made.close()


def stuck(worker: Worker, release: threading.Event) -> Callable[[], str]:
    def job() -> str:
        with worker.calling("nvmlStuck"):
            release.wait(10)
        return "at last"

    return job


async def test_results_and_errors_of_a_job_are_passed_on(worker: Worker) -> None:
    assert await worker.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0)


async def test_jobs_run_on_one_thread_that_is_not_the_loops(worker: Worker) -> None:
    threads = {await worker.run(threading.get_ident) for _ in range(3)}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_a_hanging_call_times_out_and_the_loop_continues(worker: Worker) -> None:
    release = threading.Event()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    counting = asyncio.create_task(count())
    started = time.monotonic()
    with pytest.raises(GpuError, match=r"NVML does not respond within 0\.2 s \(nvmlStuck\)"):
        await worker.run(stuck(worker, release))
    assert TIMEOUT_S <= time.monotonic() - started < 5
    assert turns > 3
    counting.cancel()
    release.set()


async def test_while_a_call_hangs_others_are_refused_at_once_and_never_run(worker: Worker) -> None:
    release = threading.Event()
    ran = []
    first = asyncio.create_task(worker.run(stuck(worker, release)))
    waiting = asyncio.create_task(worker.run(lambda: ran.append("waiting")))
    for task in (first, waiting):
        with pytest.raises(GpuError, match="nvmlStuck"):
            await task
    late = asyncio.create_task(worker.run(lambda: ran.append("late")))
    await asyncio.sleep(0)
    assert late.done()
    with pytest.raises(GpuError, match="nvmlStuck"):
        await late
    release.set()
    async with asyncio.timeout(10):
        assert await settled(worker) == 1
    assert ran == []


async def test_jobs_run_again_after_the_call_returns(worker: Worker) -> None:
    release = threading.Event()
    with pytest.raises(GpuError):
        await worker.run(stuck(worker, release))
    release.set()
    async with asyncio.timeout(10):
        assert await settled(worker) == 1


async def test_many_short_calls_may_take_longer_together(worker: Worker) -> None:
    def job() -> int:
        for _ in range(6):
            with worker.calling("nvmlShort"):
                time.sleep(TIMEOUT_S / 4)
        return 6

    assert await worker.run(job) == 6


async def test_a_cancelled_caller_does_not_affect_the_others(worker: Worker) -> None:
    release = threading.Event()
    first = asyncio.create_task(worker.run(release.wait))
    second = asyncio.create_task(worker.run(lambda: "second"))
    await asyncio.sleep(0)
    first.cancel()
    release.set()
    assert await second == "second"


async def test_a_closed_worker_refuses(worker: Worker) -> None:
    worker.close()
    with pytest.raises(GpuError, match="NVML is closed"):
        await worker.run(lambda: 1)


async def settled(worker: Worker) -> int:
    while True:
        try:
            return await worker.run(lambda: 1)
        except GpuError:
            await asyncio.sleep(0.01)
