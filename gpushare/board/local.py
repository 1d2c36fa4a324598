"""Serves the board on loopback, for the user of this machine: composition."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from aiohttp import web

from gpushare.adapters.kube.client import KubeClient
from gpushare.board.collect import Watched
from gpushare.board.loopback import LocalBoard, respond
from gpushare.board.namespace_watch import WatchedNamespace
from gpushare.board.routes import HOME, Document
from gpushare.board.server import listening, page_files, read, written
from gpushare.errors import ApiError, ConfigError, first_of
from gpushare.overview.connection import ApiSource
from gpushare.overview.usage_api import if_served, way_to_usage, with_rights_of_namespace
from gpushare.runtime.listener import bind_socket

LOOPBACK: Final = "127.0.0.1"


class Followed(Protocol):
    """What the page shows: the cluster, or one namespace."""

    document: Document
    built: asyncio.Event

    async def check(self) -> None:
        """Raises ApiError and ConfigError for what is no reason to wait."""

    def jobs(self) -> Iterable[Coroutine[Any, Any, None]]:
        """The background jobs; each runs until cancelled."""


def serve(
    source: ApiSource,
    port: int,
    namespace: str | None,
    announce: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    """Serves until interrupted. ``announce`` gets the URL once the page can be opened.

    ``port`` 0 is any free port. ``namespace`` None is the whole cluster, or the namespace of the kubeconfig
    for an account that may not list the cluster. Raises ConfigError and ApiError.
    """
    own = source.namespace(namespace) or ""
    with bind_socket(LOOPBACK, port) as listener:

        async def ask(client: KubeClient) -> None:
            find = _namespace if namespace else _cluster
            await _serve(await find(client, own, report), listener, announce)

        try:
            source.ask(ask)
        except ExceptionGroup as group:
            raise first_of(group) from group


async def _cluster(client: KubeClient, own: str, report: Callable[[str], None]) -> Followed:
    """The cluster, or the account's own namespace. Raises ConfigError for an account that may see neither."""

    async def everything() -> Followed:
        return await _checked(Watched(client, report))

    async def namespace() -> Followed:
        return await _checked(WatchedNamespace(client, own, report))

    return await with_rights_of_namespace(everything(), namespace, own)


async def _namespace(client: KubeClient, name: str, report: Callable[[str], None]) -> Followed:
    found = await if_served(_checked(WatchedNamespace(client, name, report)))
    if isinstance(found, ApiError):
        raise ConfigError(f"{str(found).rstrip('.')}.\n{way_to_usage(name)}") from found
    return found


async def _checked(found: Followed) -> Followed:
    await found.check()
    return found


async def _serve(cluster: Followed, listener: socket.socket, announce: Callable[[str], None]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for job in cluster.jobs():
            tasks.create_task(job)
        await cluster.built.wait()
        async with serving(listener, lambda: cluster.document) as url:
            announce(url)
            await asyncio.Event().wait()


@asynccontextmanager
async def serving(listener: socket.socket, document: Callable[[], Document]) -> AsyncIterator[str]:
    """Serves the page with the present document; yields the URL with a new token."""
    port = listener.getsockname()[1]
    served = LocalBoard(page_files(), secrets.token_urlsafe(24), port)

    async def answer(request: web.BaseRequest) -> web.Response:
        return written(respond(served, document(), read(request)))

    async with listening(answer, listener):
        yield f"http://{LOOPBACK}:{port}{HOME}?token={served.token}"
