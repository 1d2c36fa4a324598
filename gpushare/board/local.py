"""Serves the board on loopback, for the user of this machine: composition."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from gpushare.adapters.kube.client import KubeClient
from gpushare.board.collect import Watched
from gpushare.board.loopback import LocalBoard, respond
from gpushare.board.routes import HOME, Document
from gpushare.board.server import listening, page_files, read, written
from gpushare.errors import first_of
from gpushare.overview.connection import ApiSource
from gpushare.runtime.listener import bind_socket

LOOPBACK: Final = "127.0.0.1"


def serve(
    source: ApiSource, port: int, announce: Callable[[str], None], report: Callable[[str], None]
) -> None:
    """Serves until interrupted. ``announce`` gets the URL once the page can be opened.

    ``port`` 0 is any free port. Raises ConfigError, and ApiError if nodes and pods cannot be listed.
    """
    with bind_socket(LOOPBACK, port) as listener:
        try:
            source.ask(lambda client: _serve(client, listener, announce, report))
        except ExceptionGroup as group:
            raise first_of(group) from group


async def _serve(
    client: KubeClient,
    listener: socket.socket,
    announce: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    cluster = Watched(client, report)
    await cluster.check()
    async with asyncio.TaskGroup() as tasks:
        for job in cluster.jobs():
            tasks.create_task(job)
        await cluster.built.wait()
        async with serving(listener, lambda: cluster.document) as url:
            announce(url)
            await asyncio.Event().wait()


@asynccontextmanager
async def serving(listener: socket.socket, document: Callable[[], Document]) -> AsyncIterator[str]:
    """Serves the page with the present document; yields the URL with a new token."""
    port = listener.getsockname()[1]
    served = LocalBoard(page_files(), secrets.token_urlsafe(24), port)

    async def answer(request: web.BaseRequest) -> web.Response:
        return written(respond(served, document(), read(request)))

    async with listening(answer, listener):
        yield f"http://{LOOPBACK}:{port}{HOME}?token={served.token}"
