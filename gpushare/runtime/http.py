"""HTTP requests and responses as values, and the encoding of a response. ``server`` does the I/O.

Wrong paths and methods are handled as in the Aliyun extender: an extra trailing slash is redirected (301 for
GET, 307 otherwise), a wrong method is 405 with ``Allow``.
"""

import time
from collections.abc import Callable, Container, Coroutine
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from gpushare.runtime.certificates import PeerCertificate

_MAX_HEAD_BYTES: Final = 64 * 2**10
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``path`` is decoded and without the query, which is as it was sent.

    Header names are in lower case; the values of a repeated header are joined by a line feed, which no value
    can contain. ``body`` is None if it was too large; the connection then ends after the response.
    ``certificate`` is that of the client, None without one.
    """

    method: str
    path: str
    headers: dict[bytes, bytes]
    body: bytes | None
    keep_alive: bool
    query: str = ""
    certificate: PeerCertificate | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """One response. ``headers`` are added to the standard headers."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def text_response(text: str, status: int = 200, *headers: tuple[str, str]) -> Response:
    """Return a plain-text response."""
    return Response(text.encode(), status, "text/plain; charset=utf-8", headers)


PendingResponse = Coroutine[Any, Any, Response]
Handler = Callable[[Request], Response | PendingResponse]

BAD_REQUEST: Final = text_response("Invalid HTTP request received.", HTTPStatus.BAD_REQUEST)
CRASHED: Final = text_response("Internal Server Error", HTTPStatus.INTERNAL_SERVER_ERROR)


def wrong_method(allowed: str) -> Response:
    """The response for a path that has a handler, but not for this method."""
    return text_response("Method Not Allowed", HTTPStatus.METHOD_NOT_ALLOWED, ("allow", allowed))


def no_route(request: Request, known: Container[str]) -> Response:
    """The response for an unknown path: a redirect if only the trailing slash is wrong, otherwise 404."""
    path = request.path.rstrip("/")
    if path == request.path or path not in known:
        return text_response("Not Found", HTTPStatus.NOT_FOUND)
    moved = HTTPStatus.MOVED_PERMANENTLY if request.method == "GET" else HTTPStatus.TEMPORARY_REDIRECT
    return Response(b"", moved, "", (("location", path),))


def head_of(response: Response, *, last: bool) -> bytes:
    """Encode status line and headers. ``last`` adds ``connection: close``."""
    lines = [
        f"HTTP/1.1 {response.status} {_PHRASES[response.status]}",
        f"date: {_date(int(time.time()))}",
        f"content-length: {len(response.body)}",
        *(f"{name}: {value}" for name, value in response.headers),
    ]
    if response.content_type:
        lines.append(f"content-type: {response.content_type}")
    if last:
        lines.append("connection: close")
    return "\r\n".join((*lines, "", "")).encode("latin-1")


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


class HeadTooLargeError(Exception):
    """The request line and headers are too large."""


@dataclass(slots=True)
class Message:
    """A partially read request. ``size`` counts the body, even if it is discarded."""

    url: bytes = b""
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: list[bytes] = field(default_factory=list)
    size: int = 0
    in_head: bool = False
    head_size: int = 0

    def count_head(self, size: int) -> None:
        """Count received bytes. Raises HeadTooLargeError while the head is incomplete and too large."""
        self.head_size += size
        if self.in_head and self.head_size > _MAX_HEAD_BYTES:
            raise HeadTooLargeError
