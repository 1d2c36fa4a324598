"""The HTTP server of aiohttp for both boards, and the files of the page."""

import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import PurePath
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gpushare.board.routes import HOME, File
from gpushare.runtime.http import Request, Response

_GRACE_S: Final = 0.5
_HOME: Final = "board.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


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
    folder = files("gpushare.board") / "page"
    names = [(each.name, _TYPES.get(PurePath(each.name).suffix)) for each in folder.iterdir()]
    found = {f"/{name}": File(packaged(name), kind) for name, kind in names if kind}
    return {HOME: File(packaged(_HOME), "text/html; charset=utf-8"), **found}


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
