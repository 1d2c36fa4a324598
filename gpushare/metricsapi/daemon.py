"""Composition of the metrics API: watches, exporters, authentication, servers."""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from gpushare.adapters.http_client import HttpClient
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.metrics_api import AUTHENTICATION
from gpushare.adapters.kube.reviews import review
from gpushare.metricsapi.access import Authorizer, ServerAuth
from gpushare.metricsapi.books import Books
from gpushare.metricsapi.cluster import ClusterReader
from gpushare.metricsapi.directory import CountedInformer, NodeDirectory, PodDirectory, exporter_urls
from gpushare.metricsapi.exporters import MOST_CONNECTIONS, Exporters
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.node_pages import NodePages
from gpushare.metricsapi.service import MetricsService
from gpushare.metricsapi.settings import MetricsApiSettings
from gpushare.metricsapi.usage import UsageService
from gpushare.runtime.admin_server import AdminRoutes, rendering
from gpushare.runtime.daemon import serve, stop_event
from gpushare.runtime.fairness import TimeSlices
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.long_lived import exclude_modules, exclude_present
from gpushare.runtime.server import HttpServer

log = structlog.get_logger()

_MAX_BODY_BYTES: Final = 2**16
"""The API is read-only; request bodies are read and ignored."""


async def run(settings: MetricsApiSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises GpuShareError if the metrics API cannot start."""
    stop = stop_event()
    server_auth = ServerAuth(settings.tls_cert, settings.tls_key)
    access = await load_access(settings.kubeconfig)
    exclude_modules()
    with (
        bind_socket(settings.host, settings.port) as listener,
        bind_socket(settings.ops_host, settings.ops_port) as ops_listener,
    ):
        async with (
            KubeClient(access) as client,
            HttpClient(timeout_s=settings.deadline_seconds, connections=MOST_CONNECTIONS) as pages,
        ):
            api = MetricsApiDaemon(settings, client, pages, server_auth)
            app = AdminRoutes(rendering(api.metrics.registry), live=lambda: None, ready=api.missing)
            ports = {"port": listener.getsockname()[1], "ops_port": ops_listener.getsockname()[1]}
            log.info("started", **ports, api=client.host)
            await serve(stop, (app, ops_listener), api.jobs(), servers=[(api.server, listener)])


class MetricsApiDaemon:
    """The parts of the metrics API, wired but not running."""

    def __init__(
        self, settings: MetricsApiSettings, client: KubeClient, pages: HttpClient, server_auth: ServerAuth
    ) -> None:
        self._settings = settings
        self._selector = settings.exporters
        self._server_auth = server_auth
        self.metrics = ApiMetrics()
        self.metrics.certificate_expiry.set_function(lambda: server_auth.tls.expires_at)
        slices = TimeSlices()
        books = Books(slices)

        async def after_slice() -> None:
            exclude_present()
            await slices.turn()

        self._pods = PodDirectory(client, self.metrics, books, after_slice)
        self._nodes = NodeDirectory(client, self.metrics, books, after_slice)
        reader = ClusterReader(client, books)
        service = MetricsService(
            front=lambda: server_auth.front,
            access=Authorizer(lambda spec: review(client, spec), self.metrics),
            values=Exporters(pages, self._all_exporters, self.metrics, keep_s=settings.keep_seconds).values,
            pods=self._pods,
            nodes=self._nodes,
            usage=UsageService(
                self._pods,
                books,
                NodePages(pages.get, self._exporters, self.metrics, keep_s=settings.keep_seconds),
                slices,
                pod_of=reader.pod_of,
                refresh=reader.refresh,
                lost_s=lambda: max(self._pods.lost_s, self._nodes.lost_s),
            ),
            metrics=self.metrics,
        )
        self.server = HttpServer(service.handle, max_body=_MAX_BODY_BYTES, tls=server_auth.tls.context)
        self._config = CountedInformer(
            client, AUTHENTICATION, self.metrics, lambda: server_auth.update(self._config.objects)
        )

    def jobs(self) -> Iterable[Coroutine[Any, Any, None]]:
        """The background jobs; each runs until cancelled."""
        yield self._pods.run()
        yield self._nodes.run()
        yield self._config.run()
        yield self._server_auth.tls.run()

    def missing(self) -> str | None:
        """Why requests cannot be served; None if they can."""
        if not (self._pods.listed.is_set() and self._nodes.listed.is_set()):
            return "pods and nodes are not listed yet"
        return self._server_auth.problem

    def _all_exporters(self) -> Sequence[str]:
        return tuple(self._exporters().values())

    def _exporters(self) -> Mapping[str, str]:
        """The URL of the exporter of each node."""
        settings = self._settings
        pods = self._pods.of(settings.exporter_namespace).values()
        return exporter_urls(pods, self._selector, settings.exporter_port)
