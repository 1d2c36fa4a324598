"""Runs a daemon: one start and one stop order for all of them.

A stop on SIGTERM or SIGINT has six steps, each with a time limit:

1. ``/readyz`` returns 503; ``/healthz`` and ``/metrics`` still work.
2. The servers accept no more requests; requests in progress finish.
3. ``drain``: work that the requests started finishes, while the jobs still run.
4. The jobs are cancelled and clean up, for example release the Lease or unregister from the kubelet.
5. ``close``: what needs the jobs to have ended.
6. The admin server ends.

The caller opens clients before ``serve`` and closes them after it, so they outlive what uses them. A job or
server that fails, or returns before the signal, ends the daemon without these steps: everything else is
cancelled at once, and the servers let requests in progress finish, within their grace period. Then the error
reaches the caller.
"""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from gpushare.runtime.admin_server import AdminRoutes
from gpushare.runtime.server import HttpServer

log = structlog.get_logger()

_SERVERS_S: Final = 10.0
"""Longer than the grace period that a server itself gives to requests in progress."""
_JOBS_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class StopStep:
    """Work of an orderly stop, cancelled after ``within_s`` seconds."""

    run: Callable[[], Awaitable[None]]
    within_s: float


def stop_event() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set. Create it first: a signal during the start must not be lost."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)
    return event


async def serve(
    stop: asyncio.Event,
    admin: tuple[AdminRoutes, socket.socket],
    jobs: Iterable[Coroutine[Any, Any, None]],
    *,
    servers: Collection[tuple[HttpServer, socket.socket]] = (),
    drain: StopStep | None = None,
    close: StopStep | None = None,
    jobs_end_s: float = _JOBS_S,
) -> None:
    """Run jobs and servers until ``stop`` is set, then stop in the order of this module.

    ``jobs`` run until cancelled; those that do not end within ``jobs_end_s`` seconds are cancelled again.
    Raises an ExceptionGroup with the error of a job or server that failed.
    """
    routes, listener = admin
    admin_server = HttpServer(routes, max_body=0)
    async with asyncio.TaskGroup() as tasks:

        def start(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            return tasks.create_task(_until_stop(stop, name, work), name=name)

        start("admin server", admin_server.serve(listener))
        serving = [start("server", server.serve(accepting)) for server, accepting in servers]
        running = [start(getattr(job, "__qualname__", "job"), job) for job in jobs]
        await asyncio.sleep(0)  # every task has begun before one is cancelled
        await stop.wait()
        log.info("stopping")
        routes.stopping = True
        for server, _ in servers:
            server.stop()
        await _ended(serving, _SERVERS_S)
        await _perform("drain", drain)
        for task in running:
            task.cancel()
        await _ended(running, jobs_end_s)
        await _perform("close", close)
        admin_server.stop()


async def _until_stop(stop: asyncio.Event, name: str, work: Coroutine[Any, Any, None]) -> None:
    await work
    if not stop.is_set():
        raise RuntimeError(f"{name} ended before the daemon was stopped")


async def _ended(tasks: Collection[asyncio.Task[None]], within_s: float) -> None:
    """Wait for the tasks; log and cancel those that take longer."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=within_s)
    for task in late:
        log.warning("stop_overdue", waits_for=task.get_name(), after_s=within_s)
        task.cancel()


async def _perform(name: str, step: StopStep | None) -> None:
    if step is None:
        return
    try:
        async with asyncio.timeout(step.within_s):
            await step.run()
    except TimeoutError:
        log.warning("stop_overdue", waits_for=name, after_s=step.within_s)
