"""The admin port: health, readiness, metrics, and other paths."""

from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry, Gauge

from gpushare.runtime.admin_server import AdminRoutes, rendering
from gpushare.runtime.http import Request, Response, text_response


def request(path: str, method: str = "GET", accept: bytes = b"") -> Request:
    return Request(method, path, {b"accept": accept} if accept else {}, b"", keep_alive=True)


def routes(
    problem: str | None = None,
    notices: tuple[str, ...] = (),
    gauges: Callable[[], Awaitable[bytes]] | None = None,
) -> AdminRoutes:
    registry = CollectorRegistry()
    Gauge("answer", "The answer.", registry=registry).set(42)
    return AdminRoutes(
        rendering(registry),
        live=lambda: problem,
        ready=lambda: problem,
        notices=lambda: notices,
        gauges=gauges,
    )


@pytest.mark.parametrize(
    ("problem", "notices", "status", "text"),
    [
        (None, (), 200, "ok"),
        (
            None,
            ("degraded: no right to x", "GPU 1 is full"),
            200,
            "ok\ndegraded: no right to x\nGPU 1 is full",
        ),
        ("not listed", ("degraded: no right to x",), 503, "not listed"),
    ],
    ids=["ready", "degraded", "not-ready"],
)
def test_a_degraded_daemon_is_ready_and_reports_what_is_missing(
    problem: str | None, notices: tuple[str, ...], status: int, text: str
) -> None:
    assert routes(problem, notices)(request("/readyz")) == text_response(text, status)


def test_a_daemon_that_stops_is_alive_and_not_ready() -> None:
    admin = routes()
    admin.stopping = True
    assert admin(request("/readyz")) == text_response("stopping", 503)
    assert admin(request("/healthz")) == text_response("ok")


def test_a_daemon_with_a_problem_is_not_alive() -> None:
    assert routes("no snapshot", ("degraded",))(request("/healthz")) == text_response("no snapshot", 503)


@pytest.mark.parametrize(
    ("accept", "content_type", "end"),
    [
        (b"", "text/plain; version=0.0.4; charset=utf-8", b"answer 42.0\n"),
        (
            b"application/openmetrics-text; version=1.0.0",
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
            b"answer 42.0\n# EOF\n",
        ),
    ],
)
def test_metrics_have_the_format_that_the_client_accepts(
    accept: bytes, content_type: str, end: bytes
) -> None:
    response = routes()(request("/metrics", accept=accept))
    assert isinstance(response, Response)
    assert (response.status, response.content_type) == (200, content_type)
    assert response.body.endswith(end)


@pytest.mark.parametrize(
    ("accept", "end"),
    [(b"", b"answer 42.0\nmore 1.0\n"), (b"application/openmetrics-text", b"answer 42.0\nmore 1.0\n# EOF\n")],
)
async def test_gauges_that_take_a_while_are_part_of_the_metrics(accept: bytes, end: bytes) -> None:
    async def gauges() -> bytes:
        return b"more 1.0\n"

    response = routes(gauges=gauges)(request("/metrics", accept=accept))
    assert not isinstance(response, Response)
    assert (await response).body.endswith(end)


@pytest.mark.parametrize(
    ("method", "path", "status", "header"),
    [
        ("HEAD", "/healthz", 200, ()),
        ("POST", "/metrics", 405, (("allow", "GET, HEAD"),)),
        ("GET", "/metrics/", 301, (("location", "/metrics"),)),
        ("POST", "/metrics/", 307, (("location", "/metrics"),)),
        ("GET", "/", 404, ()),
        ("GET", "/metrics/x", 404, ()),
    ],
)
def test_other_methods_and_paths(
    method: str, path: str, status: int, header: tuple[tuple[str, str], ...]
) -> None:
    response = routes()(request(path, method))
    assert isinstance(response, Response)
    assert (response.status, response.headers) == (status, header)


@pytest.mark.parametrize(
    "accept",
    [
        b"text/plain;version=abc",
        b"text/plain;version=1..0",
        b"application/openmetrics-text; version=x",
        b"application/openmetrics-text;version=1.0.0\nSet-Cookie: a=b",
        b"application/openmetrics-text;version=" + b"1" * 5000,
        b";;version==,",
    ],
)
def test_a_format_that_does_not_exist_is_not_used(accept: bytes) -> None:
    response = routes()(request("/metrics", accept=accept))
    assert isinstance(response, Response)
    assert b"answer 42.0" in response.body
    assert response.content_type in (
        "text/plain; version=0.0.4; charset=utf-8",
        "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
    )


def test_the_formats_of_repeated_headers_count() -> None:
    accept = b"text/html\napplication/openmetrics-text; version=1.0.0; q=0.5"
    response = routes()(request("/metrics", accept=accept))
    assert isinstance(response, Response)
    assert response.content_type.startswith("application/openmetrics-text; version=1.0.0;")
