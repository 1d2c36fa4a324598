"""The delay of the event loop."""

import asyncio
import time
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from gpushare.runtime.loop_delay import watch_loop_delay

pytestmark = pytest.mark.timeout(30)


async def delays_during(work_s: float) -> list[float]:
    """What is measured before, during and after a turn of the loop that takes ``work_s`` seconds."""
    delays: list[float] = []
    measured = asyncio.Event()

    def observe(delay_s: float) -> None:
        delays.append(delay_s)
        measured.set()

    task = asyncio.create_task(watch_loop_delay(observe))
    await measured.wait()
    time.sleep(work_s)  # noqa: ASYNC251 - what is measured
    for _ in range(2):
        measured.clear()
        await measured.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return delays


async def test_a_turn_that_takes_long_is_measured_and_logged() -> None:
    with capture_logs() as logs:
        delays = await delays_during(0.2)
    assert max(delays) >= 0.18
    (entry,) = [each for each in logs if each["seconds"] >= 0.18]
    assert (entry["event"], entry["log_level"]) == ("event_loop_delayed", "info")
    assert entry["processor_s"] <= entry["seconds"]


async def test_a_delay_is_never_negative() -> None:
    assert min(await delays_during(0)) >= 0
