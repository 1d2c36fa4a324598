"""Answers of the board's server: who may ask, and the files and the document. Pure.

The server listens on loopback, where every user and every web page of the machine reaches it. A request needs
the secret token: once in the URL that the command prints, then in a cookie. Its ``Host`` must be a loopback
name: a page of another site whose name resolves to 127.0.0.1 (DNS rebinding) has its own name there. Its
``Origin``, if any, must be the page's. The page may load and ask nothing else (``Content-Security-Policy``).
"""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from gpushare.runtime.http import Request, Response, text_response, wrong_method

HOME: Final = "/"
DATA: Final = "/data"
COOKIE: Final = "gpushare-board"
_HOST: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.ASCII)
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
_HEADERS: Final = (
    ("content-security-policy", _POLICY),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
)
_FORBIDDEN: Final = (
    "403 Forbidden. Open the URL that `kubectl gpushare board` has printed; it has the token of this board.\n"
)


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page."""

    content: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Document:
    """The document as JSON; equal documents have an equal ``tag``."""

    content: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class Board:
    """What is served: the files by path, and who may have them. ``port`` distinguishes several boards."""

    files: Mapping[str, File]
    token: str
    port: int

    @property
    def cookie(self) -> str:
        """Cookies are shared by all ports of a host."""
        return f"{COOKIE}-{self.port}"


def respond(board: Board, document: Document, request: Request) -> Response:
    """The response, with the headers that protect the page."""
    found = _respond(board, document, request)
    return replace(found, headers=(*_HEADERS, *found.headers))


def _respond(board: Board, document: Document, request: Request) -> Response:
    if not _from_this_page(request):
        return text_response(_FORBIDDEN, HTTPStatus.FORBIDDEN)
    if request.method not in ("GET", "HEAD"):
        return wrong_method("GET, HEAD")
    if request.path == HOME and _is(board.token, _asked_token(request)):
        return _admitted(board)
    if not _is(board.token, _cookie(request, board.cookie)):
        return text_response(_FORBIDDEN, HTTPStatus.FORBIDDEN)
    return _data(document, request) if request.path == DATA else _file(board.files.get(request.path))


def _file(file: File | None) -> Response:
    if file is None:
        return text_response("Not Found\n", HTTPStatus.NOT_FOUND)
    return Response(file.content, content_type=file.content_type)


def _from_this_page(request: Request) -> bool:
    host, origin = (request.headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin"))
    return bool(_HOST.fullmatch(host)) and origin in ("", f"http://{host}")


def _admitted(board: Board) -> Response:
    """Keeps the token in a cookie, and takes it out of the address bar and the history.

    Browsers do not send a ``Strict`` cookie after the redirect of a page that another program has opened.
    """
    cookie = f"{board.cookie}={board.token}; Path=/; HttpOnly; SameSite=Lax"
    return Response(b"", HTTPStatus.SEE_OTHER, "", (("location", HOME), ("set-cookie", cookie)))


def _data(document: Document, request: Request) -> Response:
    tag = (("etag", f'"{document.tag}"'),)
    if request.headers.get(b"if-none-match", b"").decode("latin-1") == f'"{document.tag}"':
        return Response(b"", HTTPStatus.NOT_MODIFIED, "", tag)
    return Response(document.content, headers=tag)


def _is(token: str, given: str) -> bool:
    return hmac.compare_digest(token.encode(), given.encode())


def _asked_token(request: Request) -> str:
    return parse_qs(request.query).get("token", [""])[0]


def _cookie(request: Request, name: str) -> str:
    try:
        cookies = SimpleCookie(request.headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""
