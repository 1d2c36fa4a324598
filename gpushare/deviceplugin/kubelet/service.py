"""What the agent offers to the kubelet, wired: one allocator behind a plugin for each resource."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from gpushare.deviceplugin.derived import allocate_settings, kubelet_access
from gpushare.deviceplugin.isolation.manager import EnforcementManager
from gpushare.deviceplugin.kubelet.allocator import Allocator
from gpushare.deviceplugin.kubelet.client import kubelet_client
from gpushare.deviceplugin.kubelet.plugins import core_plugin, mem_plugin
from gpushare.deviceplugin.kubelet.registrar import Registrar
from gpushare.deviceplugin.kubelet.retries import PodSources
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.checkpoint import Observer
from gpushare.deviceplugin.node.release import GpuReleaser
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.ports import KubeEvent


class KubeletService:
    """``mem`` and ``core`` are the plugins, ``allocation_lock`` is held while a call is answered.

    ``retry_watches`` ends the pause of watches that have failed; ``record_event`` receives events of pods.
    """

    def __init__(
        self,
        settings: AgentSettings,
        observer: Observer,
        releaser: GpuReleaser,
        enforcement: EnforcementManager,
        watchdog: Watchdog,
        *,
        retry_watches: Callable[[], None],
        record_event: Callable[[KubeEvent], None],
    ) -> None:
        kubelet = kubelet_client(kubelet_access(settings), settings.pod_resources_socket)
        allocate = allocate_settings(settings)
        allocator = Allocator(
            observer,
            releaser,
            enforcement,
            allocate,
            sources=PodSources(kubelet, retry_watches),
            record_event=record_event,
            watchdog=watchdog,
        )
        self._folder = settings.device_plugin_folder
        self.allocation_lock = allocator.lock
        self.mem = mem_plugin(observer.node_state, allocator, allocate)
        self.core = core_plugin(observer.node_state, allocator)

    def jobs(self, metrics: PluginMetrics) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The registrations by name; each runs until cancelled. The names are values of a metric label."""
        yield "registration", Registrar(self.mem, self._folder, metrics).run()
        yield "core_registration", self._serve_core(metrics)

    async def _serve_core(self, metrics: PluginMetrics) -> None:
        await self.core.until_offered()
        await Registrar(self.core, self._folder, metrics).run()
