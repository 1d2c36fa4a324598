"""The HTTP/1.1 server of all daemons: small and fast, because kube-scheduler waits for each response.

It handles connections and the order of requests, not paths. A handler that can respond immediately returns
the response, which is written without a task; a handler that has to wait returns a coroutine. Each response
is one write with a Content-Length, and pipelined requests are answered in order.
"""

import asyncio
import math
import socket
import time
from collections import deque
from ssl import SSLContext
from typing import Final, cast
from urllib.parse import unquote

import httptools
import structlog

from gpushare.errors import ConfigError
from gpushare.runtime.certificates import PeerCertificate
from gpushare.runtime.http import (
    BAD_REQUEST,
    CRASHED,
    Handler,
    HeadTooLargeError,
    Message,
    PendingResponse,
    Request,
    Response,
    head_of,
)

log = structlog.get_logger()

_KEEP_ALIVE_S: Final = 120.0
"""Longer than the 90 s after which Go clients close idle connections, so that they close first."""
_AUTHENTICATED_S: Final = 3600.0
"""Certificates are verified when a connection starts, so a connection must not outlast them for long."""
_GRACE_S: Final = 5.0
_BACKLOG: Final = 1024
ANY_ADDRESS: Final = "::"
_ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 - as ANY_ADDRESS


def _has_ipv6() -> bool:
    """Whether sockets of IPv6 can be bound; it may be compiled in and disabled."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that a port in use is an error before anything else starts.

    ``::`` is every address of both families, or of IPv4 on a machine without IPv6.
    """
    if host == ANY_ADDRESS and not _has_ipv6():
        host = _ANY_IPV4
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if host == ANY_ADDRESS:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.listen(_BACKLOG)
    listener.setblocking(False)  # noqa: FBT003 - the socket API
    return listener


class HttpServer:
    """Serves one handler. A body larger than ``max_body`` bytes is discarded.

    A connection with a client certificate ends with its first response after ``authenticated_s`` seconds.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        max_body: int,
        tls: SSLContext | None = None,
        keep_alive_s: float = _KEEP_ALIVE_S,
        authenticated_s: float = _AUTHENTICATED_S,
    ) -> None:
        self.handler = handler
        self.max_body = max_body
        self.connections: set[_Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.authenticated_s = authenticated_s
        self._tls = tls
        self._keep_alive_s = keep_alive_s
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Make ``serve`` return."""
        self._stop.set()

    async def serve(self, listener: socket.socket) -> None:
        """Serve until ``stop``; then accept no more requests and let those in progress finish."""
        server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self), sock=listener, ssl=self._tls
        )
        sweeping = asyncio.create_task(self._sweep())
        try:
            await self._stop.wait()
        finally:
            sweeping.cancel()
            server.close()
            await self._drain()

    async def _drain(self) -> None:
        for connection in list(self.connections):
            connection.finish()
        if self.tasks:
            _, late = await asyncio.wait(self.tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
        for connection in list(self.connections):
            connection.transport.close()

    async def _sweep(self) -> None:
        """Close connections that send nothing, between requests or within one."""
        while True:
            await asyncio.sleep(self._keep_alive_s / 10)
            silent_since = time.monotonic() - self._keep_alive_s
            for connection in list(self.connections):
                connection.drop_if_silent(silent_since)


class _Connection(asyncio.Protocol):
    """Parses requests and sends their responses, one at a time. The parser calls the ``on_`` methods."""

    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._message = Message()
        self._waiting: deque[Request | Response] = deque()
        self._task: asyncio.Task[None] | None = None
        self._writing_paused = False
        self._ended = False
        self._received_at = time.monotonic()
        self._certificate: PeerCertificate | None = None
        self._ends_at = math.inf

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)
        self._certificate = PeerCertificate.of(transport.get_extra_info("peercert"))
        if self._certificate:
            self._ends_at = time.monotonic() + self._server.authenticated_s

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Let the request in progress finish: it may have effects although the client is gone."""
        self._ended = True
        self._waiting.clear()
        self._server.connections.discard(self)

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._advance()

    def finish(self) -> None:
        """Close after the response in progress, or immediately if there is none."""
        self._ended = True
        if self._task is None:
            self.transport.close()

    def drop_if_silent(self, silent_since: float) -> None:
        """Close the connection if it is idle and has received nothing since ``silent_since``."""
        if self._task is None and self._received_at < silent_since:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._received_at = time.monotonic()
        try:
            self._parser.feed_data(data)
            self._message.count_head(len(data))
        except httptools.HttpParserUpgrade:
            pass  # the request is queued as the last of its connection; another protocol follows
        except (httptools.HttpParserError, HeadTooLargeError):
            self._waiting.append(BAD_REQUEST)
        self._advance()

    def on_message_begin(self) -> None:
        self._message = Message(in_head=True)

    def on_url(self, part: bytes) -> None:
        self._message.url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        headers, key = self._message.headers, name.lower()
        headers[key] = b"\n".join((headers[key], value)) if key in headers else value

    def on_headers_complete(self) -> None:
        self._message.in_head = False
        waits = self._message.headers.get(b"expect", b"").lower() == b"100-continue"
        if waits and self._task is None and not self._waiting:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, part: bytes) -> None:
        message = self._message
        if message.size > self._server.max_body:
            return
        message.size += len(part)
        message.body.append(part)
        if message.size > self._server.max_body:
            message.body.clear()
            self._put(None, keep_alive=False)

    def on_message_complete(self) -> None:
        if self._message.size <= self._server.max_body:
            parser = self._parser
            stays_open = parser.should_keep_alive() and not parser.should_upgrade()
            keep_alive = stays_open and parser.get_http_version() == "1.1"
            self._put(b"".join(self._message.body), keep_alive=keep_alive)

    def _put(self, body: bytes | None, *, keep_alive: bool) -> None:
        message = self._message
        url = httptools.parse_url(message.url)
        path = unquote((url.path or b"/").decode("latin-1"))
        query = (url.query or b"").decode("latin-1")
        method = self._parser.get_method().decode()
        self._waiting.append(
            Request(method, path, message.headers, body, keep_alive, query, self._certificate)
        )

    def _advance(self) -> None:
        """Respond to queued requests in order while none is in progress and the client reads."""
        while self._waiting and self._task is None and not self._writing_paused and not self._ended:
            item = self._waiting.popleft()
            if isinstance(item, Response):
                self._send(item, last=True)
            else:
                self._begin(item)
        if self.transport.is_closing():
            return
        if self._waiting:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _begin(self, request: Request) -> None:
        try:
            response = self._server.handler(request)
        except Exception:  # a bug may fail one request, not the daemon
            log.exception("request_crashed", path=request.path)
            response = CRASHED
        if isinstance(response, Response):
            self._respond(request, response)
            return
        self._task = asyncio.get_running_loop().create_task(self._respond_later(request, response))
        self._server.tasks.add(self._task)
        self._task.add_done_callback(self._server.tasks.discard)

    async def _respond_later(self, request: Request, pending: PendingResponse) -> None:
        try:
            response = await pending
        except Exception:  # as above
            log.exception("request_crashed", path=request.path)
            response = CRASHED
        self._task = None
        self._respond(request, response)
        self._advance()

    def _respond(self, request: Request, response: Response) -> None:
        last = self._ended or not request.keep_alive or time.monotonic() >= self._ends_at
        self._send(response, last=last, head_only=request.method == "HEAD")

    def _send(self, response: Response, *, last: bool, head_only: bool = False) -> None:
        if self.transport.is_closing():
            return
        head = head_of(response, last=last)
        self.transport.write(head if head_only else head + response.body)
        if last:
            self._ended = True
            self._waiting.clear()
            self.transport.close()
