"""HTTP: the paths and methods of the scheduler's port, which are those of the Aliyun extender."""

from collections.abc import Awaitable
from typing import Final

from gpushare.adapters.extender_peers import FORWARDED_HEADER
from gpushare.contract import EXTENDER_PREFIX, EXTENDER_VERSION, EXTENDER_WAITING_PATH
from gpushare.extender import codec
from gpushare.extender.clients import Clients
from gpushare.extender.service import SchedulerService
from gpushare.extender.verbs import error_answer
from gpushare.runtime.http import (
    Handler,
    PendingResponse,
    Request,
    Response,
    no_route,
    text_response,
    wrong_method,
)

MAX_BODY_BYTES: Final = 32 * 2**20
_TOO_LARGE: Final = (
    f"request body is larger than {MAX_BODY_BYTES // 2**20} MiB; "
    "set nodeCacheCapable: true in the scheduler's configuration"
)
_INSPECT: Final = f"{EXTENDER_PREFIX}/inspect"
_OF_PEERS: Final = {f"{EXTENDER_PREFIX}/bind", f"{EXTENDER_PREFIX}/filter", EXTENDER_WAITING_PATH}
_FORWARDED: Final = FORWARDED_HEADER.lower().encode()


def _verb(service: SchedulerService, name: str) -> Handler:
    def handle(request: Request) -> Response | PendingResponse:
        if request.body is None:
            return Response(error_answer(name, _TOO_LARGE))
        forwarded = _FORWARDED in request.headers
        body = service.answer(name, request.body, request.source, forwarded=forwarded)
        return Response(body) if isinstance(body, bytes) else _pending(body)

    return handle


async def _pending(body: Awaitable[bytes]) -> Response:
    return Response(await body)


def _checked(service: SchedulerService, clients: Clients, verb: str, handler: Handler) -> Handler:
    def handle(request: Request) -> Response | PendingResponse:
        rejection = clients.rejection(request.certificate)
        return Response(service.refuse(verb, rejection)) if rejection else handler(request)

    return handle


def scheduler_routes(service: SchedulerService, clients: Clients) -> Handler:
    """filter, prioritize, preempt, bind, inspect, version."""

    async def bind(request: Request) -> Response:
        if request.body is None:
            return Response(codec.bind_answer(_TOO_LARGE))
        return Response(await service.bind(request.body, forwarded=_FORWARDED in request.headers))

    verbs: dict[str, Handler] = {name: _verb(service, name) for name in ("filter", "prioritize", "preempt")}
    posts = {
        f"{EXTENDER_PREFIX}/{name}": _checked(service, clients, name, verb)
        for name, verb in {**verbs, "bind": bind}.items()
    }
    posts[EXTENDER_WAITING_PATH] = _checked(
        service, clients, "waiting", lambda request: Response(service.note_waiting(request.body or b""))
    )
    gets: dict[str, Handler] = {
        _INSPECT: lambda _: _pending(service.inspect_all()),
        "/version": lambda _: text_response(EXTENDER_VERSION),
    }

    def inspect_one(request: Request) -> Response:
        return Response(service.inspect(request.path.removeprefix(f"{_INSPECT}/")))

    def handle(request: Request) -> Response | PendingResponse:
        path = request.path
        post = posts.get(path)
        if post is not None:
            return post(request) if request.method == "POST" else wrong_method("POST")
        get = gets.get(path) or (inspect_one if _names_a_node(path) else None)
        if get is not None:
            return get(request) if request.method in ("GET", "HEAD") else wrong_method("GET, HEAD")
        return no_route(request, {*posts, *gets})

    return handle


def peer_routes(all_routes: Handler) -> Handler:
    """The routes of a port that only other replicas use: bind, filter of pod groups, the pods that wait."""

    def handle(request: Request) -> Response | PendingResponse:
        return all_routes(request) if request.path in _OF_PEERS else no_route(request, _OF_PEERS)

    return handle


def _names_a_node(path: str) -> bool:
    before, _, node = path.rpartition("/")
    return before == _INSPECT and bool(node)
