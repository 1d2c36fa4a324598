"""Virtual time: waits for timers take no real time.

What belongs here: the event loop for tests of code that has timers and no I/O. Such code must take its time
from ``loop.time``.
"""

import asyncio
import selectors
from typing import cast


def skip_waits(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, advance the time of the loop at once while all its tasks wait for timers."""
    selector = cast("selectors.BaseSelector", loop._selector)  # type: ignore[attr-defined]
    select, now_s = selector.select, loop.time()

    def skip(timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        nonlocal now_s
        ready = select(0 if timeout else timeout)
        if timeout and not ready:
            now_s += timeout
        return ready

    selector.select = skip  # type: ignore[method-assign]
    loop.time = lambda: now_s  # type: ignore[method-assign]
