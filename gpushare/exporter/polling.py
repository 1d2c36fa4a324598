"""Repeated reads of one source with a deadline; each outage is logged once."""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

import structlog

from gpushare.errors import GpuShareError

log = structlog.get_logger()
T = TypeVar("T")


class PolledSource:
    """``took_s`` is the duration of the last read."""

    def __init__(self, name: str, deadline_s: float) -> None:
        self._name = name
        self.took_s = 0.0
        self._deadline_s = deadline_s
        self._down = False

    async def read(self, reading: Awaitable[T]) -> T | None:
        """Return the result; None on timeout or error."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await reading
        except TimeoutError:
            self._log_down(f"no response within {self._deadline_s:g} s")
            return None
        except GpuShareError as error:
            self._log_down(str(error))
            return None
        finally:
            self.took_s = time.monotonic() - begun
        if self._down:
            log.info("source_up", source=self._name)
        self._down = False
        return answer

    def _log_down(self, reason: str) -> None:
        if not self._down:
            log.warning("source_down", source=self._name, reason=reason)
        self._down = True
