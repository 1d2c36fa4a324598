"""One thread for all calls of a library that may hang.

A hanging call into the driver cannot be interrupted, but it blocks only this thread: its caller gets an
error after the timeout, later callers get one at once. If the call returns after all, the thread
continues.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from gpushare.errors import GpuError

T = TypeVar("T")


class Worker:
    """Runs jobs one after the other. ``timeout_s`` is how long one call of the library may take."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._call: tuple[str, float] | None = None
        self._closed = False
        # A daemon, because a hung call must not keep the process from ending.
        threading.Thread(target=self._work, name="nvml", daemon=True).start()

    @contextmanager
    def calling(self, function: str) -> Iterator[None]:
        """Enclose each library call of a job: the timeout starts here."""
        self._call = (function, time.monotonic())
        try:
            yield
        finally:
            self._call = None

    async def run(self, job: Callable[[], T]) -> T:
        """Run ``job`` on the thread. Raises GpuError if a call in it or before it times out."""
        self._check_responsive()
        future: Future[T] = Future()
        self._jobs.put((future, job))
        answer = asyncio.wrap_future(future)
        try:
            while not answer.done():
                await asyncio.wait({answer}, timeout=self._remaining_s())
                if not answer.done():
                    self._check_responsive()
            return await answer
        finally:
            answer.cancel()

    def close(self) -> None:
        """End the thread after the queued jobs."""
        self._closed = True
        self._jobs.put(None)

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except Exception as error:  # noqa: BLE001 - passed on to the caller
                future.set_exception(error)

    def _remaining_s(self) -> float:
        call = self._call
        return self._timeout_s if call is None else max(0.0, call[1] + self._timeout_s - time.monotonic())

    def _check_responsive(self) -> None:
        call = self._call
        if self._closed:
            raise GpuError("NVML is closed")
        if call is not None and time.monotonic() - call[1] >= self._timeout_s:
            raise GpuError(f"NVML does not respond within {self._timeout_s:g} s ({call[0]})")
