"""The order in which a daemon stops, and its end after a failure."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from devkit import waiting
from gpushare.errors import ApiError, ConfigError
from gpushare.runtime.admin_server import AdminRoutes
from gpushare.runtime.daemon import StopStep, serve
from gpushare.runtime.http import Request, Response
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.server import HttpServer
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(30)

WAIT_S = 20
"""For an answer, on a loaded machine."""


@dataclass
class Parts:
    """A daemon of one job and one server that records their ends in order."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    ended: list[str] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    admin_url: str = ""
    url: str = ""

    async def job(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("job")

    def step(self, name: str, within_s: float = 5) -> StopStep:
        async def end() -> None:
            self.ended.append(f"{name}, readyz {await self.status('/readyz')}")

        return StopStep(end, within_s)

    async def status(self, path: str) -> int:
        async with httpx2.AsyncClient(timeout=WAIT_S) as client:
            return (await client.get(self.admin_url + path)).status_code

    async def respond(self) -> Response:
        self.asked.set()
        await self.release.wait()
        self.ended.append("request")
        return Response(b"")

    def handle(self, _: Request) -> Coroutine[Any, Any, Response]:
        return self.respond()


@asynccontextmanager
async def running(
    parts: Parts,
    *jobs: Callable[[], Coroutine[Any, Any, None]],
    drain: StopStep | None = None,
    close: StopStep | None = None,
    jobs_end_s: float = 10.0,
) -> AsyncIterator[asyncio.Task[None]]:
    app = AdminRoutes(lambda _: (b"", "text/plain"), live=lambda: None, ready=lambda: None)
    with bind_socket("127.0.0.1", 0) as listener, bind_socket("127.0.0.1", 0) as admin:
        parts.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        parts.admin_url = f"http://127.0.0.1:{admin.getsockname()[1]}"
        servers = [(HttpServer(parts.handle, max_body=0), listener)]
        work = [each() for each in jobs or (parts.job,)]
        task = asyncio.create_task(
            serve(
                parts.stop,
                (app, admin),
                work,
                servers=servers,
                drain=drain,
                close=close,
                jobs_end_s=jobs_end_s,
            )
        )
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})


async def test_requests_finish_then_drain_then_the_jobs_then_close_while_the_admin_server_answers() -> None:
    parts = Parts()
    async with (
        running(parts, drain=parts.step("drain"), close=parts.step("close")) as task,
        httpx2.AsyncClient(timeout=WAIT_S) as client,
    ):
        assert await parts.status("/readyz") == 200
        request = asyncio.create_task(client.get(parts.url))
        await asyncio.wait_for(parts.asked.wait(), 10)
        parts.stop.set()

        async def unready() -> bool:
            return await parts.status("/readyz") == 503

        await waiting.until(unready, "/readyz to be 503", timeout_s=10, poll_s=0.01)
        assert (await parts.status("/healthz"), await parts.status("/metrics"), parts.ended) == (200, 200, [])
        with pytest.raises(httpx2.HTTPError):
            async with httpx2.AsyncClient() as late:
                await late.get(parts.url)
        parts.release.set()
        assert (await request).status_code == 200
        await task
        assert parts.ended == ["request", "drain, readyz 503", "job", "close, readyz 503"]
        with pytest.raises(httpx2.HTTPError):
            await parts.status("/healthz")


async def test_a_signal_that_comes_during_the_start_stops_in_the_same_order() -> None:
    parts = Parts()
    parts.stop.set()
    async with running(parts) as task:
        await task
    assert parts.ended == ["job"]


@pytest.mark.parametrize("error", [ConfigError("wrong"), ApiError("gone")])
async def test_a_job_that_fails_ends_the_daemon_with_its_error_and_without_the_orderly_steps(
    error: Exception,
) -> None:
    parts = Parts()

    async def fails() -> None:
        raise error

    steps: dict[str, Any] = {"drain": parts.step("drain"), "close": parts.step("close")}
    async with running(parts, fails, parts.job, **steps) as task:
        with pytest.raises(ExceptionGroup) as raised:
            await task
    assert raised.value.exceptions == (error,)
    assert parts.ended == ["job"]


async def test_a_request_in_progress_when_a_job_fails_is_answered_before_the_error_reaches_the_caller() -> (
    None
):
    parts, crash = Parts(), asyncio.Event()

    async def fails() -> None:
        await crash.wait()
        raise ConfigError("wrong")

    async with running(parts, fails, parts.job) as task, httpx2.AsyncClient(timeout=WAIT_S) as client:
        request = asyncio.create_task(client.get(parts.url))
        await asyncio.wait_for(parts.asked.wait(), 10)
        crash.set()
        await until(lambda: parts.ended)
        assert not task.done()
        parts.release.set()
        assert (await request).status_code == 200
        with pytest.raises(ExceptionGroup):
            await task
    assert parts.ended == ["job", "request"]


async def test_a_job_that_returns_before_the_stop_is_an_error() -> None:
    parts = Parts()

    async def returns() -> None:
        """Do nothing."""

    async with running(parts, returns, parts.job) as task:
        with pytest.raises(ExceptionGroup) as raised:
            await task
    assert "returns ended before the daemon was stopped" in str(raised.value.exceptions[0])


async def test_a_drain_that_takes_too_long_is_cancelled_and_logged() -> None:
    parts = Parts()

    async def forever() -> None:
        await asyncio.Event().wait()

    with capture_logs() as logs:
        async with running(parts, drain=StopStep(forever, 0.05)) as task:
            parts.stop.set()
            await task
    assert {"event": "stop_overdue", "waits_for": "drain", "after_s": 0.05, "log_level": "warning"} in logs
    assert parts.ended == ["job"]


async def test_a_job_that_does_not_end_is_logged_and_cancelled_again() -> None:
    parts = Parts()

    async def clings() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    with capture_logs() as logs:
        async with running(parts, clings, jobs_end_s=0.05) as task:
            parts.stop.set()
            await task
    overdue = [each["waits_for"] for each in logs if each["event"] == "stop_overdue"]
    assert [name.rpartition(".")[2] for name in overdue] == ["clings"]
