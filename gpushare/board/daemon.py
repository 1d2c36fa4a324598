"""Serves the board in a cluster, with TLS, to users whom the API server knows. Composition and routing."""

import asyncio
import gzip
import signal
from http import HTTPStatus
from typing import Final

import structlog
from aiohttp import web

from gpushare.adapters.http_client import HttpClient
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.board.admissions import Admissions
from gpushare.board.collect import Watched
from gpushare.board.login import Site, respond, site_of, token_of
from gpushare.board.ops import respond as respond_ops
from gpushare.board.past import PATHS, Past, PastSource
from gpushare.board.routes import DATA, Document, protected
from gpushare.board.server import listening, packaged, page_files, read, written
from gpushare.board.settings import BoardSettings
from gpushare.overview.exporters import from_pods
from gpushare.runtime.http import Request, Response, text_response
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.tls import ServerTls

log = structlog.get_logger()

_EXPORTER_S: Final = 5.0
_MAX_BODY_BYTES: Final = 2**14
_LEVEL: Final = 1


async def run(settings: BoardSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises GpuShareError if the board cannot start."""
    tls = ServerTls(settings.tls_cert, settings.tls_key)
    access = await load_access(settings.kubeconfig)
    with (
        bind_socket(settings.host, settings.port) as listener,
        bind_socket(settings.ops_host, settings.ops_port) as ops_listener,
    ):
        async with KubeClient(access) as client, HttpClient(timeout_s=_EXPORTER_S) as pages:
            cluster = Watched(client, _problem, from_pods(pages))
            past = Past(PastSource(settings.prometheus_url, settings.prometheus_cluster), client)
            server = BoardServer(cluster, Admissions(client), past)

            async def answer_ops(request: web.BaseRequest) -> web.Response:
                return written(respond_ops(read(request), cluster.missing, tls.expires_at))

            async with (
                asyncio.TaskGroup() as tasks,
                listening(answer_ops, ops_listener),
                listening(server.answer, listener, tls.context),
            ):
                ports = {"port": listener.getsockname()[1], "ops_port": ops_listener.getsockname()[1]}
                log.info("started", **ports, api=client.host)
                jobs = [tasks.create_task(job) for job in (*cluster.jobs(), tls.run())]
                await _stopped()
                for job in jobs:
                    job.cancel()


class BoardServer:
    """Answers requests of browsers."""

    def __init__(self, cluster: Watched, admissions: Admissions, past: Past) -> None:
        self._cluster = cluster
        self._admissions = admissions
        self._past = past
        self._site: Site = site_of(page_files(), packaged("login.html"))
        self._compressed = Document(b"", "")
        self._compressing = asyncio.Lock()

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """The response to any request."""
        return written(await self._respond(request))

    async def _respond(self, request: web.BaseRequest) -> Response:
        if (request.content_length or 0) > _MAX_BODY_BYTES:
            return protected(text_response("Content Too Large\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
        asked = read(request, await request.read() if request.method == "POST" else None)
        admission = await self._admissions.of(token_of(asked))
        if admission.status == HTTPStatus.OK and asked.method == "GET" and asked.path in PATHS:
            return protected(await self._past.answer(asked))
        document = await self._document(asked)
        return respond(self._site, document, asked, admission, self._cluster.lost_since)

    async def _document(self, request: Request) -> Document:
        """The document, compressed once for all users: it has megabytes in a large cluster."""
        if request.path != DATA or b"gzip" not in request.headers.get(b"accept-encoding", b""):
            return self._cluster.document
        async with self._compressing:
            document = self._cluster.document
            tag = f"{document.tag}-gzip"
            if self._compressed.tag != tag:
                content = await asyncio.to_thread(gzip.compress, document.content, _LEVEL)
                self._compressed = Document(content, tag, "gzip")
            return self._compressed


def _problem(text: str) -> None:
    log.warning("cluster_not_read", reason=text)


async def _stopped() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    log.info("stopping")
