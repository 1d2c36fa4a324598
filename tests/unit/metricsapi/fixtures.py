"""The metrics API on a real socket with real certificates; the API server and the source are FAKES.

What belongs here: the server, its clients, and the answers of the fakes. What does not: tests.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from gpushare.adapters.kube.metrics_api import DirectoryEntry
from gpushare.contract import AUTHENTICATION_CONFIG
from gpushare.errors import GpuShareError
from gpushare.metricsapi.access import Authorizer, ServerAuth
from gpushare.metricsapi.directory import Directory
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.queries import MetricQuery, MetricValue
from gpushare.metricsapi.service import MetricsService
from gpushare.model.changes import Upserted
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.server import HttpServer
from testbed.control_plane.pki import Authority, PkiPair
from tests.support.fakes.usage_api import UsageApi

API = "/apis/custom.metrics.k8s.io/v1beta2"
FRONT = "front-proxy-client"
USER = {"X-Remote-User": "u"}


@dataclass
class Answers:
    """Answers of the fakes: values by name, or an error; permissions."""

    values: Mapping[str, MetricValue] | GpuShareError = field(default_factory=dict)
    allowed: bool | GpuShareError = True
    queries: list[MetricQuery] = field(default_factory=list)
    reviews: list[Mapping[str, Any]] = field(default_factory=list)

    async def answer(self, query: MetricQuery) -> Mapping[str, MetricValue]:
        self.queries.append(query)
        if isinstance(self.values, GpuShareError):
            raise self.values
        return self.values

    async def review(self, spec: Mapping[str, Any]) -> bool:
        self.reviews.append(spec)
        if isinstance(self.allowed, GpuShareError):
            raise self.allowed
        return self.allowed


class FakeSource:
    """A FAKE of the source: returns the configured answer."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def values(self, query: MetricQuery) -> Mapping[str, MetricValue]:
        return await self._answers.answer(query)


class MetricsApi:
    """``server`` is the authority of the server, ``front`` that of the front proxy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers = Answers()
        self.metrics = ApiMetrics()
        self.server_ca, self.front_ca = Authority.create("server"), Authority.create("front")
        self.server_ca.pair().write(folder, "ca")
        self.serve_by(self.server_ca)
        self.usage = UsageApi(self.metrics)
        self.pods, self.nodes = self.usage.pods, self.usage.nodes
        self.auth = ServerAuth(f"{folder}/tls.crt", f"{folder}/tls.key", reload_s=0.02)
        service = MetricsService(
            front=lambda: self.auth.front,
            access=Authorizer(self.answers.review, self.metrics),
            values=FakeSource(self.answers).values,
            pods=self.pods,
            nodes=self.nodes,
            usage=self.usage.service,
            metrics=self.metrics,
        )
        self.http = HttpServer(service.handle, max_body=100, tls=self.auth.tls.context)
        self.port = 0

    def serve_by(self, authority: Authority) -> PkiPair:
        """Write a new certificate of the server."""
        pair = authority.server("metrics-api", ["127.0.0.1"])
        pair.write(self.folder, "tls")
        return pair

    def trust(self, authority: Authority) -> None:
        """Configure the CA of the front proxy, as the ConfigMap of the API server does."""
        data = {
            "requestheader-client-ca-file": authority.pair().cert.decode(),
            "requestheader-allowed-names": json.dumps([FRONT]),
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
        self.auth.update({AUTHENTICATION_CONFIG: data})

    def add(self, directory: Directory, *entries: DirectoryEntry) -> None:
        directory.changed([Upserted(f"{each.namespace}/{each.name}", each) for each in entries])

    def client(self, pair: PkiPair | None = None) -> ssl.SSLContext:
        """A client with that certificate."""
        context = ssl.create_default_context(cafile=f"{self.folder}/ca.crt")
        if pair:
            pair.write(self.folder, "client")
            context.load_cert_chain(f"{self.folder}/client.crt", f"{self.folder}/client.key")
        return context

    async def ask(
        self,
        path: str,
        *,
        tls: ssl.SSLContext | None = None,
        method: str = "GET",
        headers: Mapping[str, str] = USER,
    ) -> tuple[int, Any]:
        """Status and document, on a separate connection; by default as the front proxy."""
        context = tls or self.client(self.front_ca.client(FRONT))
        url = f"https://127.0.0.1:{self.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, headers=headers, ssl=context) as answer,
        ):
            text = await answer.text()
            return answer.status, json.loads(text) if answer.content_type == "application/json" else text


@asynccontextmanager
async def serving(folder: Path, *, trusted: bool = True) -> AsyncIterator[MetricsApi]:
    """The server, which knows its front proxy if ``trusted``; pods ``p`` and ``q`` in ``a``, node ``n``."""
    api = MetricsApi(folder)
    api.add(
        api.pods,
        DirectoryEntry("a", "p", {"app": "x"}),
        DirectoryEntry("a", "q", {"app": "y"}),
        DirectoryEntry("b", "r"),
    )
    api.add(api.nodes, DirectoryEntry("", "n", {"zone": "z"}))
    listener = bind_socket("127.0.0.1", 0)
    api.port = listener.getsockname()[1]
    reloading = asyncio.create_task(api.auth.tls.run())
    serving_ = asyncio.create_task(api.http.serve(listener))
    try:
        if trusted:
            api.trust(api.front_ca)
        yield api
    finally:
        reloading.cancel()
        api.http.stop()
        await asyncio.gather(reloading, serving_, return_exceptions=True)
