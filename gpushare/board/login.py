"""Answers of the board in a cluster, where users sign in with a token of the API server. Pure.

A request has the token in ``Authorization``, as an authenticating proxy sends it, or in a cookie, where the
login page puts it. Scripts cannot read the cookie, and browsers send it with TLS only and to this host only
(``__Host-``). A form that another site sends is refused (``Sec-Fetch-Site``).

What does not belong here: what the API server says of a token (``admissions``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

import msgspec

from gpushare.board.routes import DATA, HOME, Document, File, content, cookie_of, protected
from gpushare.runtime.http import Request, Response, text_response, wrong_method

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
COOKIE: Final = "__Host-gpushare-board"
MAX_TOKEN: Final = 4000
"""Browsers keep cookies of at most 4096 bytes, with name and attributes."""
_ATTRIBUTES: Final = "Path=/; Secure; HttpOnly; SameSite=Lax"
_PUBLIC: Final = ("/board.css", "/icon.svg", "/login.js")
"""What the login page needs."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
_MESSAGE: Final = b"@message@"
_SIGN_OUT: Final = b"<!-- sign out -->"
_BUTTON: Final = (
    f'<form id="sign-out" method="post" action="{LOGOUT}"><button>Sign out</button></form>'.encode()
)
_FROM_HERE: Final = (b"", b"same-origin", b"none")


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a user sees the board: 200, or 401, 403 or 503 with the reason."""

    status: HTTPStatus
    reason: str = ""


NO_TOKEN: Final = Admission(HTTPStatus.UNAUTHORIZED)
ADMITTED: Final = Admission(HTTPStatus.OK)


@dataclass(frozen=True, slots=True)
class Site:
    """The files of the page by path, and the login page."""

    files: Mapping[str, File]
    login: bytes


def site_of(files: Mapping[str, File], login: bytes) -> Site:
    """The page with a button to sign out."""
    page = files[HOME]
    with_button = File(page.content.replace(_SIGN_OUT, _BUTTON), page.content_type)
    return Site({**files, HOME: with_button}, login)


def token_of(request: Request) -> str:
    """The token of the request, or of its form; empty without one."""
    if request.method == "POST":
        return _of_form(request) if request.path == LOGIN else ""
    scheme, _, token = request.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else cookie_of(request, COOKIE)


def fault_of(token: str) -> Admission | None:
    """Why the API server is not asked about a token."""
    if not token:
        return NO_TOKEN
    if not _TOKEN.fullmatch(token):
        text = "This is not a token: it has characters that no token has, such as spaces."
        return Admission(HTTPStatus.UNAUTHORIZED, text)
    return None


def respond(
    site: Site, document: Document, request: Request, admission: Admission, lost_since: float | None
) -> Response:
    """The response, with the headers that protect the page. ``admission`` is that of the request's token.

    ``lost_since`` is since when the document is old; None if it is not, or that has not been noticed yet.
    """
    return protected(_respond(site, document, request, admission, lost_since), forms="'self'")


def _respond(
    site: Site, document: Document, request: Request, admission: Admission, lost_since: float | None
) -> Response:
    if request.path in (LOGIN, LOGOUT):
        return _form(site, request, admission)
    if request.method not in ("GET", "HEAD"):
        return wrong_method("GET, HEAD")
    if admission.status == HTTPStatus.OK or request.path in _PUBLIC:
        return content(site.files, document, request)
    if request.path == HOME:
        return _login_page(site, admission)
    if request.path == DATA and admission.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return _lost(lost_since, admission.reason)
    return text_response(f"{admission.reason or 'no token'}\n", admission.status)


def _lost(since: float | None, reason: str) -> Response:
    """What an open page shows over its last figures, which no one may get anew now."""
    body = msgspec.json.encode({"lost": {"since": since, "reason": reason}})
    return Response(body, HTTPStatus.SERVICE_UNAVAILABLE)


def _form(site: Site, request: Request, admission: Admission) -> Response:
    if request.method != "POST":
        return wrong_method("POST")
    if request.headers.get(b"sec-fetch-site", b"") not in _FROM_HERE:
        return text_response("403 Forbidden. Another site has sent this form.\n", HTTPStatus.FORBIDDEN)
    if request.path == LOGOUT:
        return _home("; Max-Age=0")
    token = token_of(request)
    if len(token) > MAX_TOKEN:
        text = f"The token has {len(token)} characters, and a browser keeps {MAX_TOKEN}: use a shorter one."
        admission = Admission(HTTPStatus.UNAUTHORIZED, text)
    return _home("", token) if admission.status == HTTPStatus.OK else _login_page(site, admission)


def _home(age: str, token: str = "") -> Response:
    cookie = f"{COOKIE}={token}; {_ATTRIBUTES}{age}"
    return Response(b"", HTTPStatus.SEE_OTHER, "", (("location", HOME), ("set-cookie", cookie)))


def _login_page(site: Site, admission: Admission) -> Response:
    page = site.login.replace(_MESSAGE, escape(admission.reason).encode())
    return Response(page, admission.status, "text/html; charset=utf-8")


def _of_form(request: Request) -> str:
    text = (request.body or b"").decode("utf-8", "replace")
    try:
        return parse_qs(text, max_num_fields=10).get("token", [""])[0].strip()
    except ValueError:  # more fields
        return ""
