"""The admin server of a daemon: health, readiness, metrics."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

Check = Callable[[], str | None]
Render = Callable[[str], tuple[bytes, str]]
"""Maps an Accept header to the metrics and their content type."""


def rendering(registry: CollectorRegistry) -> Render:
    """Return a function that renders the current metrics of the registry."""

    def render(accept: str) -> tuple[bytes, str]:
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    return render


def admin_app(
    render: Render,
    *,
    live: Check,
    ready: Check,
    notices: Callable[[], Iterable[str]] = tuple,
) -> Starlette:
    """Return the application with /healthz, /readyz and /metrics. A check returns the problem, or None.

    ``notices`` are lines for the administrator in the response of a daemon that is ready.
    """

    async def healthz(_: Request) -> Response:
        return _check(live())

    async def readyz(_: Request) -> Response:
        return _check("stopping" if app.state.stopping else ready(), *notices())

    async def metrics(request: Request) -> Response:
        page, content_type = render(request.headers.get("accept", ""))
        return Response(page, headers={"content-type": content_type})

    app = _application(
        [
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
        ]
    )
    app.state.stopping = False
    return app


def set_stopping(app: Starlette) -> None:
    """Make ``/readyz`` return 503 from now on."""
    app.state.stopping = True


def _application(routes: list[Route]) -> Starlette:
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    app.router.default = _without_slash(app)
    return app


def _without_slash(app: Starlette) -> ASGIApp:
    """Handle a path without a route: redirect if only the trailing slash is wrong, else 404."""
    exact = {route.path for route in app.routes if isinstance(route, Route)}
    not_found = app.router.not_found

    async def default(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and path.endswith("/") and path.rstrip("/") in exact:
            status = 301 if scope["method"] == "GET" else 307
            await RedirectResponse(path.rstrip("/"), status_code=status)(scope, receive, send)
        else:
            await not_found(scope, receive, send)

    return default


def _check(problem: str | None, *notices: str) -> Response:
    if problem is not None:
        return PlainTextResponse(problem, status_code=503)
    return PlainTextResponse("\n".join(["ok", *notices]))
