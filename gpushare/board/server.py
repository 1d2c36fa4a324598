"""Serves the page and the document on loopback, with what the server in a cluster needs too."""

import asyncio
import logging
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gpushare.board.collect import Watched
from gpushare.board.loopback import Board, respond
from gpushare.board.routes import HOME, Document, File
from gpushare.errors import first_of
from gpushare.overview.cluster import ApiSource
from gpushare.runtime.http import Request, Response
from gpushare.runtime.listener import bind_socket

LOOPBACK: Final = "127.0.0.1"
_GRACE_S: Final = 0.5
_FILES: Final = {
    HOME: ("board.html", "text/html; charset=utf-8"),
    "/board.css": ("board.css", "text/css; charset=utf-8"),
    "/board.js": ("board.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def serve(
    source: ApiSource, port: int, announce: Callable[[str], None], report: Callable[[str], None]
) -> None:
    """Serves until interrupted. ``announce`` gets the URL once the page can be opened.

    ``port`` 0 is any free port. Raises ConfigError, and ApiError if nodes and pods cannot be listed.
    """
    with bind_socket(LOOPBACK, port) as listener:
        try:
            asyncio.run(_serve(source, listener, announce, report))
        except ExceptionGroup as group:
            raise first_of(group) from group


async def _serve(
    source: ApiSource,
    listener: socket.socket,
    announce: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    async with await source.client() as client:
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
    served = Board(page_files(), secrets.token_urlsafe(24), port)

    async def answer(request: web.BaseRequest) -> web.Response:
        return written(respond(served, document(), read(request)))

    async with listening(answer, listener):
        yield f"http://{LOOPBACK}:{port}{HOME}?token={served.token}"


@asynccontextmanager
async def listening(
    answer: Callable[[web.BaseRequest], Awaitable[web.Response]],
    listener: socket.socket,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[None]:
    """Answers requests until the end of the context."""
    server = web.Server(answer, access_log=None, logger=_log())
    runner = web.ServerRunner(server, shutdown_timeout=_GRACE_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()


def _log() -> logging.Logger:
    """For errors of this program; aiohttp logs invalid requests with a traceback too."""
    logger = logging.getLogger(__name__)
    logger.addFilter(_is_ours)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def page_files() -> dict[str, File]:
    """The files of the page by path."""
    return {path: File(packaged(name), kind) for path, (name, kind) in _FILES.items()}


def packaged(name: str) -> bytes:
    """A file of the page."""
    return (files("gpushare.board") / "page" / name).read_bytes()


def written(found: Response) -> web.Response:
    """The response as aiohttp sends it."""
    headers = {"server": "gpushare", **dict(found.headers)}
    response = web.Response(body=found.body, status=found.status, headers=headers)
    if found.content_type:
        response.headers["content-type"] = found.content_type
    return response


def read(request: web.BaseRequest, body: bytes | None = None) -> Request:
    """The request as a value, with this body."""
    headers = {_raw(name.lower()): _raw("\n".join(request.headers.getall(name))) for name in request.headers}
    return Request(request.method, request.path, headers, body, keep_alive=True, query=request.query_string)


def _raw(text: str) -> bytes:
    """The bytes of a header as they were sent."""
    return text.encode(errors="surrogateescape")
