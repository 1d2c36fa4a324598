"""The delay of the event loop: how long work that is due waits for the work before it."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger()

_INTERVAL_S: Final = 0.01
"""The time between two measurements. The longest turn of the loop is measured too short by this at most."""
_LONG_S: Final = 0.05


async def watch_loop_delay(observe: Callable[[float], None]) -> None:
    """Measure how late the event loop runs a timer, in seconds, until cancelled. Long delays are logged.

    ``processor_s`` in the log is what this thread computed meanwhile: the rest it waited for a processor.
    """
    while True:
        began, computed = time.perf_counter(), time.thread_time()
        await asyncio.sleep(_INTERVAL_S)
        delay_s = max(0.0, time.perf_counter() - began - _INTERVAL_S)
        observe(delay_s)
        if delay_s >= _LONG_S:
            processor_s = time.thread_time() - computed
            log.info("event_loop_delayed", seconds=round(delay_s, 3), processor_s=round(processor_s, 3))
