"""Composition of the exporter: driver, watches, sampler, admin server."""

import structlog

from gpushare.adapters.kube.agent_resources import local_node, local_pods
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.informer import Informer
from gpushare.adapters.nvml import Nvml
from gpushare.exporter.exposition import Exposition
from gpushare.exporter.sampling import Sampler
from gpushare.exporter.settings import ExporterSettings
from gpushare.runtime.admin_server import AdminRoutes
from gpushare.runtime.daemon import serve, stop_event
from gpushare.runtime.listener import bind_socket

log = structlog.get_logger()


async def run(settings: ExporterSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises GpuShareError if the exporter cannot start."""
    stop = stop_event()
    access = await load_access(settings.kubeconfig)
    with bind_socket(settings.ops_host, settings.ops_port) as listener:
        async with (
            Nvml(timeout_s=settings.deadline_seconds, driver_root=settings.driver_root) as gpus,
            KubeClient(access) as client,
        ):
            pods = Informer(client, local_pods(settings.node_name))
            node = Informer(client, local_node(settings.node_name))
            sampler = Sampler(settings, gpus, pods, node)
            exposition = Exposition(
                sampler,
                settings.node_name,
                settings.stale_seconds,
                each_process=settings.process_ids,
                dcgm_devices=settings.dcgm_devices,
            )
            app = _app(sampler, exposition, settings.stale_seconds)
            log.info("started", node=settings.node_name, ops_port=listener.getsockname()[1], api=client.host)
            jobs = (pods.run(), node.run(), sampler.run(exposition.prepare))
            await serve(stop, (app, listener), jobs)


def _app(sampler: Sampler, exposition: Exposition, stale_s: float) -> AdminRoutes:
    """Ready once a snapshot exists; alive while the last one is not older than ``stale_s``."""

    def live() -> str | None:
        return f"no snapshot for {sampler.age_s:.0f} s" if sampler.age_s > stale_s else None

    def ready() -> str | None:
        return "no snapshot yet" if sampler.snapshot is None else live()

    return AdminRoutes(exposition, live=live, ready=ready)
