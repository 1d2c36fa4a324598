"""Serves the board on loopback, for the user of this machine: composition."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aiohttp import web

from gpushare.adapters.kube.client import KubeClient
from gpushare.board.collect import Watched
from gpushare.board.loopback import LocalBoard, is_admitted, respond
from gpushare.board.namespace_watch import WatchedNamespace
from gpushare.board.past import PATHS, Past, PastSource
from gpushare.board.routes import HOME, Document, protected
from gpushare.board.server import listening, page_files, read, written
from gpushare.errors import ApiError, ConfigError, first_of
from gpushare.overview.connection import ApiSource
from gpushare.overview.usage_api import if_served, way_to_usage, with_rights_of_namespace
from gpushare.runtime.http import Request, Response
from gpushare.runtime.listener import bind_socket

Answers = Callable[[Request], Awaitable[Response]]
LOOPBACK: Final = "127.0.0.1"
_NO_PAST: Final = "note: the history is of the whole cluster, so the board of one namespace does not show it"


class Followed(Protocol):
    """What the page shows: the cluster, or one namespace."""

    document: Document
    built: asyncio.Event

    async def check(self) -> None:
        """Raises ApiError and ConfigError for what is no reason to wait."""

    def jobs(self) -> Iterable[Coroutine[Any, Any, None]]:
        """The background jobs; each runs until cancelled."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the page shows, and the answers about earlier days: None for one namespace, which has none.

    Those answers are of the whole cluster, and name all its namespaces.
    """

    followed: Followed
    past: Answers | None = None


def serve(
    source: ApiSource,
    port: int,
    namespace: str | None,
    past: PastSource,
    announce: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    """Serves until interrupted. ``announce`` gets the URL once the page can be opened.

    ``port`` 0 is any free port. ``namespace`` None is the whole cluster, or the namespace of the kubeconfig
    for an account that may not list the cluster. ``past`` is for the whole cluster. Raises ConfigError and
    ApiError.
    """
    own = source.namespace(namespace) or ""
    with bind_socket(LOOPBACK, port) as listener:

        async def ask(client: KubeClient) -> None:
            found = (
                await _namespace(client, own, report)
                if namespace
                else await _cluster(client, own, past, report)
            )
            await _serve(found, listener, announce)

        try:
            source.ask(ask)
        except ExceptionGroup as group:
            raise first_of(group) from group


async def _cluster(client: KubeClient, own: str, past: PastSource, report: Callable[[str], None]) -> Served:
    """The cluster, or the account's own namespace. Raises ConfigError for an account that may see neither."""

    async def everything() -> Served:
        return Served(await _checked(Watched(client, report)), Past(past, client).answer)

    async def namespace() -> Served:
        found = await _checked(WatchedNamespace(client, own, report))
        if past.url:
            report(_NO_PAST)
        return Served(found)

    return await with_rights_of_namespace(everything(), namespace, own)


async def _namespace(client: KubeClient, name: str, report: Callable[[str], None]) -> Served:
    found = await if_served(_checked(WatchedNamespace(client, name, report)))
    if isinstance(found, ApiError):
        raise ConfigError(f"{str(found).rstrip('.')}.\n{way_to_usage(name)}") from found
    return Served(found)


async def _checked(found: Followed) -> Followed:
    await found.check()
    return found


async def _serve(served: Served, listener: socket.socket, announce: Callable[[str], None]) -> None:
    followed = served.followed
    async with asyncio.TaskGroup() as tasks:
        for job in followed.jobs():
            tasks.create_task(job)
        await followed.built.wait()
        async with serving(listener, lambda: followed.document, served.past) as url:
            announce(url)
            await asyncio.Event().wait()


@asynccontextmanager
async def serving(
    listener: socket.socket, document: Callable[[], Document], past: Answers | None
) -> AsyncIterator[str]:
    """Serves the page with the present document, and earlier days; yields the URL with a new token."""
    port = listener.getsockname()[1]
    board = LocalBoard(page_files(), secrets.token_urlsafe(24), port)

    async def answer(request: web.BaseRequest) -> web.Response:
        asked = read(request)
        if past and asked.method == "GET" and asked.path in PATHS and is_admitted(board, asked):
            return written(protected(await past(asked)))
        return written(respond(board, document(), asked))

    async with listening(answer, listener):
        yield f"http://{LOOPBACK}:{port}{HOME}?token={board.token}"
