"""Who gets the page and the document, and the headers of every response."""

import pytest

from gpushare.board.loopback import LocalBoard, respond
from gpushare.board.routes import Document, File
from gpushare.runtime.http import Request, Response

BOARD = LocalBoard({"/": File(b"<!doctype html>", "text/html")}, "secret", 8080)
DOCUMENT = Document(b"{}", "tag")
COOKIE = "gpushare-board-8080=secret"


def ask(
    path: str = "/", *, query: str = "", method: str = "GET", host: str = "127.0.0.1:8080", **headers: str
) -> Response:
    named = {"host": host, "cookie": COOKIE} | {key.replace("_", "-"): text for key, text in headers.items()}
    encoded = {key.encode(): text.encode("latin-1") for key, text in named.items()}
    return respond(BOARD, DOCUMENT, Request(method, path, encoded, None, keep_alive=True, query=query))


def header(response: Response, name: str) -> str:
    return dict(response.headers)[name]


def test_the_page_and_the_document_with_the_cookie() -> None:
    assert (ask().status, ask().body) == (200, b"<!doctype html>")
    assert (ask("/data").status, ask("/data").body) == (200, b"{}")
    assert ask("/other").status == 404
    assert ask(method="POST").status == 405


def test_the_token_of_the_url_becomes_a_cookie_that_scripts_cannot_read() -> None:
    found = ask(query="token=secret", cookie="")
    assert (found.status, header(found, "location")) == (303, "/")
    assert header(found, "set-cookie") == f"{COOKIE}; Path=/; HttpOnly; SameSite=Lax"


@pytest.mark.parametrize("path", ["/", "/data", "/other"])
@pytest.mark.parametrize(
    "cookie", ["", "gpushare-board-8080=", "gpushare-board-8080=wrong", "\xff;=;\x01", "a=secret"]
)
def test_without_the_token_there_is_nothing(path: str, cookie: str) -> None:
    found = ask(path, cookie=cookie)
    assert found.status == 403
    assert b"kubectl gpushare board" in found.body
    assert ask(path, cookie=cookie, query="token=wrong").status == 403


def test_a_token_in_the_query_of_another_path_is_not_accepted() -> None:
    assert ask("/data", query="token=secret", cookie="").status == 403


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost\nx"]
)
def test_another_host_is_refused_even_with_the_token(host: str) -> None:
    assert ask(host=host).status == 403
    assert ask(host=host, query="token=secret").status == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "localhost:9000", "localhost"]
)
def test_names_of_loopback_are_accepted_on_any_port_because_it_may_be_forwarded(host: str) -> None:
    assert ask(host=host).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9000", "https://127.0.0.1:8080"]
)
def test_a_request_of_another_page_is_refused(origin: str) -> None:
    assert ask("/data", origin=origin).status == 403
    assert ask("/data", origin="http://127.0.0.1:8080").status == 200


def test_an_unchanged_document_is_not_sent_again() -> None:
    found = ask("/data", if_none_match='"tag"')
    assert (found.status, found.body, header(found, "etag")) == (304, b"", '"tag"')
    assert ask("/data", if_none_match='"older"').status == 200


@pytest.mark.parametrize(
    "found", [ask(), ask("/data"), ask("/other"), ask(cookie=""), ask(query="token=secret")]
)
def test_every_response_forbids_what_the_page_does_not_need(found: Response) -> None:
    policy = header(found, "content-security-policy")
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert header(found, "x-content-type-options") == "nosniff"
    assert header(found, "referrer-policy") == "no-referrer"
    assert header(found, "cache-control") == "no-store"
    assert not any(name.startswith("access-control-") for name, _ in found.headers)
