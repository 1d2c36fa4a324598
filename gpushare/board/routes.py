"""The files of the page, the document, and the headers of every answer. Pure.

The page may load and ask nothing else (``Content-Security-Policy``). What does not belong here: who may ask,
on one machine (``loopback``) or in a cluster (``login``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Final

from gpushare.runtime.http import Request, Response, text_response

HOME: Final = "/"
DATA: Final = "/data"
HISTORY: Final = "/history"
TENANTS: Final = "/tenants"
TIMES: Final = "/ranges"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action {forms}; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
_HEADERS: Final = (
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
)


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page."""

    content: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Document:
    """The document as JSON, in an encoding of HTTP; equal documents have an equal ``tag``."""

    content: bytes
    tag: str
    encoding: str = ""


def protected(response: Response, *, forms: str = "'none'") -> Response:
    """The response with the headers that protect the page. ``forms`` is where it may send forms."""
    policy = ("content-security-policy", _POLICY.format(forms=forms))
    return replace(response, headers=(policy, *_HEADERS, *response.headers))


def content(files: Mapping[str, File], document: Document, request: Request) -> Response:
    """The document, or a file by its path."""
    return _data(document, request) if request.path == DATA else _file(files.get(request.path))


def _file(file: File | None) -> Response:
    if file is None:
        return text_response("Not Found\n", HTTPStatus.NOT_FOUND)
    return Response(file.content, content_type=file.content_type)


def _data(document: Document, request: Request) -> Response:
    tag = (("etag", f'"{document.tag}"'),)
    if request.headers.get(b"if-none-match", b"").decode("latin-1") == f'"{document.tag}"':
        return Response(b"", HTTPStatus.NOT_MODIFIED, "", tag)
    encoding = (("content-encoding", document.encoding),) if document.encoding else ()
    return Response(document.content, headers=(*tag, *encoding))


def cookie_of(request: Request, name: str) -> str:
    """The value of a cookie; empty without it."""
    try:
        cookies = SimpleCookie(request.headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""
