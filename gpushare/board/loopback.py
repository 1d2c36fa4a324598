"""Answers of the board on one machine. Pure.

The server listens on loopback, where every user and every web page of the machine reaches it. A request needs
the secret token: once in the URL that the command prints, then in a cookie. Its ``Host`` must be a loopback
name: a page of another site whose name resolves to 127.0.0.1 (DNS rebinding) has its own name there. Its
``Origin``, if any, must be the page's.
"""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from gpushare.board.routes import HOME, Document, File, content, cookie_of, protected
from gpushare.runtime.http import Request, Response, text_response, wrong_method

COOKIE: Final = "gpushare-board"
_HOST: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.ASCII)
_FORBIDDEN: Final = (
    "403 Forbidden. Open the URL that `kubectl gpushare board` has printed; it has the token of this board.\n"
)


@dataclass(frozen=True, slots=True)
class LocalBoard:
    """What is served: the files by path, and who may have them. ``port`` distinguishes several boards."""

    files: Mapping[str, File]
    token: str
    port: int

    @property
    def cookie(self) -> str:
        """Cookies are shared by all ports of a host."""
        return f"{COOKIE}-{self.port}"


def respond(board: LocalBoard, document: Document, request: Request) -> Response:
    """The response, with the headers that protect the page."""
    return protected(_respond(board, document, request))


def is_admitted(board: LocalBoard, request: Request) -> bool:
    """Whether a page of this board asks, with its token."""
    return _from_this_page(request) and _is(board.token, cookie_of(request, board.cookie))


def _respond(board: LocalBoard, document: Document, request: Request) -> Response:
    if not _from_this_page(request):
        return text_response(_FORBIDDEN, HTTPStatus.FORBIDDEN)
    if request.method not in ("GET", "HEAD"):
        return wrong_method("GET, HEAD")
    if request.path == HOME and _is(board.token, _asked_token(request)):
        return _admitted(board)
    if not is_admitted(board, request):
        return text_response(_FORBIDDEN, HTTPStatus.FORBIDDEN)
    return content(board.files, document, request)


def _from_this_page(request: Request) -> bool:
    host, origin = (request.headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin"))
    return bool(_HOST.fullmatch(host)) and origin in ("", f"http://{host}")


def _admitted(board: LocalBoard) -> Response:
    """Keeps the token in a cookie, and takes it out of the address bar and the history.

    Browsers do not send a ``Strict`` cookie after the redirect of a page that another program has opened.
    """
    cookie = f"{board.cookie}={board.token}; Path=/; HttpOnly; SameSite=Lax"
    return Response(b"", HTTPStatus.SEE_OTHER, "", (("location", HOME), ("set-cookie", cookie)))


def _is(token: str, given: str) -> bool:
    return hmac.compare_digest(token.encode(), given.encode())


def _asked_token(request: Request) -> str:
    return parse_qs(request.query).get("token", [""])[0]
