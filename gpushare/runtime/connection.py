"""One connection of the HTTP server: parses requests and sends their responses, in order.

Received bytes are only stored. They are parsed, and requests are handled, when the server gives the
connection a turn: at most one request, and a limited amount of work, so that no client holds up the others.
"""

import asyncio
import math
import time
from collections import deque
from typing import Final, Protocol, cast
from urllib.parse import unquote

import httptools
import structlog

from gpushare.runtime.certificates import PeerCertificate
from gpushare.runtime.fairness import FairSlots
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

_PART: Final = 4 * 2**10
"""Bytes that are parsed at once, unless they are known to be a body."""
_PARTS: Final = 4
_HEAD_END: Final = b"\r\n\r\n"
_READ_AHEAD: Final = 256 * 2**10


class ConnectionOwner(Protocol):
    """The server of a connection."""

    max_body: int
    tasks: set[asyncio.Task[None]]
    slots: FairSlots
    authenticated_s: float

    @property
    def handler(self) -> Handler:
        """Responds to requests."""

    def opened(self, connection: "Connection") -> None:
        """The connection is established."""

    def closed(self, connection: "Connection") -> None:
        """The connection has ended."""

    def held(self, connection: "Connection", change: int) -> None:
        """The connection holds more or fewer bytes of requests."""

    def received(self, connection: "Connection", now: float) -> None:
        """Give the connection a turn, at once if the server was idle."""

    def ready(self, connection: "Connection") -> None:
        """Give the connection a turn soon."""

    @property
    def contended(self) -> bool:
        """Whether several connections wait for a turn."""


class Connection(asyncio.Protocol):
    """Parses requests and sends their responses, one at a time. The parser calls the ``on_`` methods."""

    transport: asyncio.Transport

    def __init__(self, owner: ConnectionOwner, source: str) -> None:
        self.source = source
        self.held = 0
        """Bytes of requests that are not answered yet."""
        self.answered = 0
        """Requests answered so far."""
        self._owner = owner
        self._parser = httptools.HttpRequestParser(self)
        self._message = Message()
        self._input: deque[bytes] = deque()
        self._offset = 0
        self._unread = 0
        self._waiting: deque[Request | Response] = deque()
        self._task: asyncio.Task[None] | None = None
        self._reading_paused = False
        self._writing_paused = False
        self._ended = False
        self._received_at = time.monotonic()
        self._begun_at: float | None = None
        self._certificate: PeerCertificate | None = None
        self._ends_at = math.inf

    @property
    def idle(self) -> bool:
        """Whether no request is in progress, not even in part."""
        return self._task is None and not self.held

    @property
    def receiving(self) -> bool:
        """Whether a request has arrived in part, or waits for a turn."""
        return self.held > 0 and self._may_work()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; with TLS, after the handshake."""
        self.transport = cast("asyncio.Transport", transport)
        self._certificate = PeerCertificate.of(transport.get_extra_info("peercert"))
        if self._certificate:
            self._ends_at = time.monotonic() + self._owner.authenticated_s
        self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Let the request in progress finish: it may have effects although the client is gone."""
        self._end()
        self._owner.closed(self)

    def pause_writing(self) -> None:
        """Handle no requests while the client does not read its responses."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """Continue after ``pause_writing``."""
        self._writing_paused = False
        self._continue()

    def finish(self) -> None:
        """Close after the response in progress, or immediately if there is none."""
        self._end()
        if self._task is None:
            self.transport.close()

    def abort(self) -> None:
        """End the connection now, and forget its requests."""
        self._end()
        self.transport.abort()

    def drop_if_slow(self, silent_since: float, begun_since: float) -> None:
        """Abort the connection if it received nothing, or did not complete its request, since these times."""
        if self._task is not None:
            return
        if self._received_at < silent_since or (self._begun_at or begun_since) < begun_since:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Store the data until the turn of the connection."""
        if self._ended:
            return
        self._received_at = time.monotonic()
        self._input.append(data)
        self._unread += len(data)
        self._hold(self.held + len(data))
        self._owner.received(self, self._received_at)
        # What is not read stays in the kernel, which slows down the client.
        if self._owner.contended or self._unread > _READ_AHEAD:
            self._pause_reading()

    # --- turns ----------------------------------------------------------------------------------------

    def work(self) -> None:
        """Handle one request if it is complete. Called by the server, as the turn of this connection."""
        if not self._may_work():
            return
        if not self._waiting:
            self._parse()
        if self._waiting:
            self._handle(self._waiting.popleft())
        self._continue()

    def _may_work(self) -> bool:
        return self._task is None and not self._writing_paused and not self._ended

    def _continue(self) -> None:
        """Ask for the next turn if there is something to do, or else read on."""
        if not self._may_work() or self.transport.is_closing():
            return
        if self._waiting or self._unread:
            self._owner.ready(self)
        elif self._reading_paused:
            self._reading_paused = False
            self.transport.resume_reading()

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self.transport.is_closing():
            self._reading_paused = True
            self.transport.pause_reading()

    def _hold(self, size: int) -> None:
        change, self.held = size - self.held, size
        self._owner.held(self, change)

    def _end(self) -> None:
        """Handle no more requests."""
        self._ended = True
        self._message = Message()  # the parser keeps this object alive until the next garbage collection
        self._waiting.clear()
        self._input.clear()
        self._unread = 0
        self._hold(0)

    # --- parsing --------------------------------------------------------------------------------------

    def _parse(self) -> None:
        """Parse until a request is complete, or for a limited number of parts."""
        try:
            for _ in range(_PARTS):
                if self._waiting or not self._unread:
                    break
                part = self._next_part()
                self._parser.feed_data(part)
                self._message.count_head(len(part))
        except httptools.HttpParserUpgrade:
            pass  # the request is queued as the last of its connection; another protocol follows
        except (httptools.HttpParserError, HeadTooLargeError):
            self._waiting.append(BAD_REQUEST)

    def _next_part(self) -> memoryview:
        """The rest of the head, the rest of the body, or a limited number of bytes."""
        data, begin = self._input[0], self._offset
        end = begin + (self._message.missing or _PART)
        # Not beyond the head: a second request waits for the next turn.
        if self._message.in_head or self._begun_at is None:
            found = data.find(_HEAD_END, begin, end)
            end = end if found < 0 else found + len(_HEAD_END)
        end = min(end, len(data))
        self._offset = end
        if end == len(data):
            self._input.popleft()
            self._offset = 0
        self._unread -= end - begin
        return memoryview(data)[begin:end]

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._message = Message(in_head=True)
        self._begun_at = time.monotonic()

    def on_url(self, part: bytes) -> None:
        """Add to the target of the request."""
        self._message.url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; the values of a repeated one are joined."""
        headers, key = self._message.headers, name.lower()
        headers[key] = b"\n".join((headers[key], value)) if key in headers else value

    def on_headers_complete(self) -> None:
        """End the head, and let the client send its body if it waits for that."""
        self._message.in_head = False
        waits = self._message.headers.get(b"expect", b"").lower() == b"100-continue"
        if waits and self._task is None and not self._waiting:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, part: bytes) -> None:
        """Add to the body; discard it if it is too large."""
        message = self._message
        if message.size > self._owner.max_body:
            return
        message.size += len(part)
        message.body.append(part)
        # The rest is parsed and dropped, and the connection ends after the answer.
        if message.size > self._owner.max_body:
            message.body.clear()
            self._put(None, keep_alive=False)

    def on_message_complete(self) -> None:
        """Queue the request."""
        self._begun_at = None
        if self._message.size <= self._owner.max_body:
            parser = self._parser
            stays_open = parser.should_keep_alive() and not parser.should_upgrade()
            keep_alive = stays_open and parser.get_http_version() == "1.1"
            self._put(b"".join(self._message.body), keep_alive=keep_alive)
            self._message.body.clear()

    def _put(self, body: bytes | None, *, keep_alive: bool) -> None:
        message = self._message
        url = httptools.parse_url(message.url)
        path = unquote((url.path or b"/").decode("latin-1"))
        query = (url.query or b"").decode("latin-1")
        method = self._parser.get_method().decode()
        self._waiting.append(
            Request(method, path, message.headers, body, keep_alive, query, self._certificate, self.source)
        )

    # --- responses ------------------------------------------------------------------------------------

    def _handle(self, item: Request | Response) -> None:
        if isinstance(item, Response):
            self._send(item, last=True)
            return
        try:
            response = self._owner.handler(item)
        except Exception:  # a bug may fail one request, not the daemon
            log.exception("request_crashed", path=item.path)
            response = CRASHED
        if isinstance(response, Response):
            self._respond(item, response)
            return
        self._task = asyncio.get_running_loop().create_task(self._respond_later(item, response))
        self._owner.tasks.add(self._task)
        self._task.add_done_callback(self._owner.tasks.discard)

    async def _respond_later(self, request: Request, pending: PendingResponse) -> None:
        response = await self._response(request, pending)
        self._task = None
        self._respond(request, response)
        self._continue()

    async def _response(self, request: Request, pending: PendingResponse) -> Response:
        """Wait for the response; it begins to be made when the source of this connection may have another."""
        try:
            await self._owner.slots.take(self.source)
        except asyncio.CancelledError:
            pending.close()
            raise
        try:
            return await pending
        except Exception:  # as above
            log.exception("request_crashed", path=request.path)
            return CRASHED
        finally:
            self._owner.slots.give_back(self.source)

    def _respond(self, request: Request, response: Response) -> None:
        # A certificate is checked at the handshake only, so the connection must end some time.
        last = self._ended or not request.keep_alive or time.monotonic() >= self._ends_at
        self._send(response, last=last, head_only=request.method == "HEAD")

    def _send(self, response: Response, *, last: bool, head_only: bool = False) -> None:
        self.answered += 1
        if self.transport.is_closing():
            return
        head = head_of(response, last=last)
        self.transport.write(head if head_only else head + response.body)
        if last:
            self._end()
            self.transport.close()
        else:
            # What remains belongs to later requests.
            self._hold(self._unread + self._message.buffered)
