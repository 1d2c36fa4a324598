"""Who gets the board of a cluster, the login page, and the cookie."""

import json
from http import HTTPStatus

import pytest

from gpushare.board.login import (
    ADMITTED,
    MAX_TOKEN,
    NO_TOKEN,
    Admission,
    fault_of,
    respond,
    site_of,
    token_of,
)
from gpushare.board.routes import Document, File
from gpushare.runtime.http import Request, Response

FILES = {
    "/": File(b"<header><!-- sign out --></header>", "text/html"),
    "/board.js": File(b"1", "text/javascript"),
    "/board.css": File(b"*", "text/css"),
}
SITE = site_of(FILES, b"<p>@message@</p>")
DOCUMENT = Document(b"{}", "tag")
DENIED = Admission(HTTPStatus.FORBIDDEN, "<u> may not list nodes")
SILENT = Admission(HTTPStatus.SERVICE_UNAVAILABLE, "The API server cannot be asked")
COOKIE = "__Host-gpushare-board"


def request(path: str = "/", method: str = "GET", body: bytes | None = None, **headers: str) -> Request:
    named = {key.replace("_", "-").encode(): text.encode("latin-1") for key, text in headers.items()}
    return Request(method, path, named, body, keep_alive=True)


def ask(admission: Admission, path: str = "/", method: str = "GET", **headers: str) -> Response:
    return respond(SITE, DOCUMENT, request(path, method, None, **headers), admission, None)


def log_in(token: str, admission: Admission, **headers: str) -> Response:
    form = request("/login", "POST", f"token={token}".encode(), **headers)
    return respond(SITE, DOCUMENT, form, admission, None)


def header(response: Response, name: str) -> str:
    return dict(response.headers)[name]


def test_an_admitted_user_gets_the_page_with_a_button_to_sign_out_and_the_document() -> None:
    page = ask(ADMITTED)
    assert (page.status, b'action="/logout"' in page.body) == (200, True)
    assert (ask(ADMITTED, "/data").status, ask(ADMITTED, "/data").body) == (200, b"{}")
    assert ask(ADMITTED, "/data", if_none_match='"tag"').status == 304
    assert ask(ADMITTED, "/other").status == 404
    assert ask(ADMITTED, "/data", "POST").status == 405


@pytest.mark.parametrize("admission", [NO_TOKEN, DENIED, SILENT])
def test_others_get_the_login_page_with_the_reason_and_nothing_else(admission: Admission) -> None:
    page = ask(admission)
    assert page.status == admission.status
    assert page.body.startswith(b"<p>")
    assert b"<u>" not in page.body
    for path in ("/data", "/board.js", "/other"):
        assert ask(admission, path).status == admission.status
    assert ask(admission, "/board.css").body == b"*"
    assert ask(DENIED, "/data").body == b"<u> may not list nodes\n"


@pytest.mark.parametrize("since", [1_800_000_000.5, None])
def test_an_open_page_is_told_since_when_the_api_server_is_silent(since: float | None) -> None:
    found = respond(SITE, DOCUMENT, request("/data"), SILENT, since)
    assert found.status == 503
    assert json.loads(found.body) == {"lost": {"since": since, "reason": "The API server cannot be asked"}}


def test_a_login_keeps_the_token_in_a_cookie_that_scripts_and_other_hosts_cannot_read() -> None:
    found = log_in("a.b-c", ADMITTED)
    assert (found.status, header(found, "location")) == (303, "/")
    cookie = f"{COOKIE}=a.b-c; Path=/; Secure; HttpOnly; SameSite=Lax"
    assert header(found, "set-cookie") == cookie
    assert token_of(request(cookie=cookie.partition(";")[0])) == "a.b-c"


def test_a_token_that_no_cookie_holds_is_refused_by_the_form_but_not_from_a_proxy() -> None:
    assert log_in("a" * MAX_TOKEN, ADMITTED).status == 303
    long = "a" * (MAX_TOKEN + 1)
    found = log_in(long, ADMITTED)
    assert (found.status, b"has 4001 characters" in found.body) == (401, True)
    assert fault_of(token_of(request(authorization=f"Bearer {long}"))) is None


def test_a_login_that_fails_sets_no_cookie() -> None:
    for admission in (NO_TOKEN, DENIED, SILENT):
        found = log_in("a", admission)
        assert found.status == admission.status
        assert "set-cookie" not in dict(found.headers)


def test_signing_out_removes_the_cookie() -> None:
    found = ask(NO_TOKEN, "/logout", "POST")
    assert (found.status, header(found, "location")) == (303, "/")
    assert header(found, "set-cookie").startswith(f"{COOKIE}=; ")
    assert header(found, "set-cookie").endswith("; Max-Age=0")


@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_a_form_that_another_site_sends_is_refused(path: str) -> None:
    for site in ("cross-site", "same-site"):
        found = ask(ADMITTED, path, "POST", sec_fetch_site=site)
        assert (found.status, "set-cookie" in dict(found.headers)) == (403, False)
    assert ask(ADMITTED, path, "POST", sec_fetch_site="same-origin").status == 303
    assert ask(ADMITTED, path).status == 405


def test_the_token_of_an_authenticating_proxy_overrides_the_cookie() -> None:
    assert token_of(request(authorization="Bearer x.y", cookie=f"{COOKIE}=old")) == "x.y"
    assert token_of(request(authorization="bearer  x.y ")) == "x.y"
    assert token_of(request(authorization="Basic eDp5", cookie=f"{COOKIE}=mine")) == "mine"
    assert token_of(request()) == ""


@pytest.mark.parametrize(
    ("body", "token"),
    [
        (None, ""),
        (b"", ""),
        (b"token=+x%2Fy%0A", "x/y"),
        (b"other=1", ""),
        (b"\xff=\xff&token=\xff", "\ufffd"),
        (b"&".join(b"token=%d" % number for number in range(20)), ""),
    ],
)
def test_the_token_of_a_form(body: bytes | None, token: str) -> None:
    assert token_of(request("/login", "POST", body)) == token


def test_a_form_does_not_use_the_token_of_the_cookie() -> None:
    assert token_of(request("/login", "POST", b"token=", cookie=f"{COOKIE}=mine")) == ""
    assert token_of(request("/data", "POST", b"token=x", cookie=f"{COOKIE}=mine")) == ""


@pytest.mark.parametrize("token", ["a b", "a;b", "a\r\nb", "ä", "="])
def test_the_api_server_is_not_asked_about_what_is_no_token(token: str) -> None:
    fault = fault_of(token)
    assert fault
    assert (fault.status, bool(fault.reason)) == (401, True)
    assert token not in fault.reason


def test_a_token_is_asked_about_and_nothing_is_no_fault_of_the_user() -> None:
    assert fault_of("eyJhbGciOiJSUzI1NiJ9.e30._-~+/x==") is None
    assert fault_of("") is NO_TOKEN


def test_every_response_lets_the_page_send_forms_to_its_own_server_only() -> None:
    for found in (ask(ADMITTED), ask(NO_TOKEN), log_in("a", ADMITTED), ask(ADMITTED, "/data")):
        policy = header(found, "content-security-policy")
        assert "default-src 'none'" in policy
        assert "form-action 'self'" in policy
        assert header(found, "cache-control") == "no-store"
