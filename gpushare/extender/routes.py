"""HTTP: the scheduler's port and the operators' port, as Starlette applications.

Paths, methods and redirects are those of the original's router: a trailing slash too many is
redirected (301 for GET, 307 otherwise), a wrong method is 405 with ``Allow``.
"""

from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gpushare.adapters.peer import FORWARDED_HEADER
from gpushare.contract import EXTENDER_PREFIX, EXTENDER_VERSION
from gpushare.extender import codec
from gpushare.extender.service import Service
from gpushare.extender.verbs import error_answer

MAX_BODY_BYTES = 32 * 2**20
_TOO_LARGE = (
    f"request body is larger than {MAX_BODY_BYTES // 2**20} MiB; "
    "set nodeCacheCapable: true in the scheduler's configuration"
)


def scheduler_app(service: Service) -> Starlette:
    """filter, prioritize, preempt, bind, inspect, version."""

    def verb(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            body = await _body(request)
            if body is None:
                return _closing(error_answer(name, _TOO_LARGE))
            return _json(service.answer(name, body))

        return endpoint

    async def bind(request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return _closing(codec.bind_answer(_TOO_LARGE))
        return _json(await service.bind(body, forwarded=FORWARDED_HEADER in request.headers))

    async def inspect(request: Request) -> Response:
        return _json(service.inspect(request.path_params.get("node")))

    async def version(_: Request) -> Response:
        return PlainTextResponse(EXTENDER_VERSION)

    verbs = [
        Route(f"{EXTENDER_PREFIX}/{name}", verb(name), methods=["POST"])
        for name in ("filter", "prioritize", "preempt")
    ]
    routes = [
        *verbs,
        Route(f"{EXTENDER_PREFIX}/bind", bind, methods=["POST"]),
        Route(f"{EXTENDER_PREFIX}/inspect", inspect, methods=["GET"]),
        Route(f"{EXTENDER_PREFIX}/inspect/{{node}}", inspect, methods=["GET"]),
        Route("/version", version, methods=["GET"]),
    ]
    return _application(routes)


def operators_app(
    registry: CollectorRegistry, *, live: Callable[[], str | None], ready: Callable[[], str | None]
) -> Starlette:
    """healthz, readyz, metrics. The checks return what is wrong, None where nothing is."""

    async def healthz(_: Request) -> Response:
        return _check(live())

    async def readyz(_: Request) -> Response:
        return _check(ready())

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type})

    return _application(
        [
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
        ]
    )


def _application(routes: list[Route]) -> Starlette:
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    app.router.default = _without_slash(app)
    return app


def _without_slash(app: Starlette) -> ASGIApp:
    """The answer for a path that no route has: a redirect where only the trailing slash is wrong."""
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


async def _body(request: Request) -> bytes | None:
    """The body, or None where it is larger than allowed; no more than that is held in memory."""
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                return None
            chunks.append(chunk)
    except ClientDisconnect:
        return b""
    return b"".join(chunks)


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _closing(body: bytes) -> Response:
    return Response(body, media_type="application/json", headers={"connection": "close"})


def _check(problem: str | None) -> Response:
    return PlainTextResponse(
        "ok" if problem is None else problem, status_code=200 if problem is None else 503
    )
