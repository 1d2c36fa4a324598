"""One source: a question with a deadline, asked again and again, whose silence is told once."""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

import structlog

from gpushare.errors import GpuShareError

log = structlog.get_logger()
T = TypeVar("T")


class PolledSource:
    """``took_s`` is how long the last answer, or the wait for it, took."""

    def __init__(self, name: str, deadline_s: float) -> None:
        self._name = name
        self.took_s = 0.0
        self._deadline_s = deadline_s
        self._down = False

    async def read(self, question: Awaitable[T]) -> T | None:
        """The answer; None where it does not come in time, or is an error."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await question
        except TimeoutError:
            self._log_down(f"no answer within {self._deadline_s:g} s")
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
