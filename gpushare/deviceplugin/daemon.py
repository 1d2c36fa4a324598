"""The node agent: wires its parts, and starts and stops them in order.

Start order: the GPUs and the record, then the pods and the node as listed by the API server, and only then
the registration with the kubelet. No Allocate call is answered before the allocations on this node are known.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Final, Protocol

import structlog

from gpushare.adapters.driver_start import driver_start
from gpushare.adapters.kube.agent_api import KubeAgentApi
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import kubeconfig_in_pod, load_access
from gpushare.adapters.kubelet.folder import check_folder
from gpushare.adapters.kubelet.pods import check_access
from gpushare.adapters.nvml import Nvml
from gpushare.contract import ANN_CARDS, KUBELET_CHECKPOINT
from gpushare.deviceplugin.api.status import StatusPublisher
from gpushare.deviceplugin.api.waiting import WaitingReport
from gpushare.deviceplugin.api.watches import NodeWatches
from gpushare.deviceplugin.api.writer import ApiWriter
from gpushare.deviceplugin.core.node_patch import not_serving_reason
from gpushare.deviceplugin.derived import card_settings, kubelet_access
from gpushare.deviceplugin.isolation.pacer import ProcessDriver
from gpushare.deviceplugin.isolation.service import IsolationService
from gpushare.deviceplugin.kubelet.service import KubeletService
from gpushare.deviceplugin.metrics import DegradedMode, PluginMetrics
from gpushare.deviceplugin.node.checkpoint import CheckpointReader, Observer
from gpushare.deviceplugin.node.device_list import DeviceListMonitor
from gpushare.deviceplugin.node.fault_record import FaultRecord
from gpushare.deviceplugin.node.gpus import GpuMonitor
from gpushare.deviceplugin.node.reconciler import Reconciler
from gpushare.deviceplugin.node.record import AllocationRecord
from gpushare.deviceplugin.node.release import make_releaser
from gpushare.deviceplugin.node.state import NodeState
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ApiError, ConfigError
from gpushare.model.local_node import LocalNode
from gpushare.ports import InventoryDriver, node_event
from gpushare.runtime.admin_server import AdminRoutes, rendering
from gpushare.runtime.daemon import serve, stop_event
from gpushare.runtime.listener import bind_socket

log = structlog.get_logger()

_LISTS_S: Final = 10.0


async def run(settings: AgentSettings, identity: str) -> None:
    """Serve until SIGTERM or SIGINT. Raises GpuShareError if the agent cannot start."""
    stop = stop_event()
    check_folder(settings.device_plugin_folder)
    if kubelet := kubelet_access(settings):
        check_access(kubelet)
    access = await load_access(kubeconfig_in_pod(settings.kubeconfig))
    with bind_socket(settings.ops_host, settings.ops_port) as listener:
        async with Nvml(driver_root=settings.driver_root) as gpus, KubeClient(access) as client:
            agent = Agent(settings, identity, client, gpus)
            log.info("started", node=settings.node_name, ops_port=listener.getsockname()[1], api=client.host)
            await serve(stop, (agent.admin_routes, listener), agent.jobs())


class AgentDriver(InventoryDriver, ProcessDriver, Protocol):
    """The driver, for the agent of one node."""


class Agent:
    """The parts of the agent, wired but not running.

    ``lists_s`` is the longest wait for the lists of the API server before it serves without them.
    """

    def __init__(
        self,
        settings: AgentSettings,
        identity: str,
        client: KubeClient,
        driver: AgentDriver,
        *,
        lists_s: float = _LISTS_S,
    ) -> None:
        self._settings = settings
        self._lists_s = lists_s
        self.metrics = PluginMetrics()
        self.watchdog = Watchdog(self.metrics)
        degraded = DegradedMode(self.metrics)

        # Writes to the API server.
        self._api = KubeAgentApi(client, node=settings.node_name, identity=identity)
        self.writer = ApiWriter(self._api, self.metrics, self.watchdog)
        record_event = self.writer.record_event

        # The state of the node, and what keeps it in step with record, checkpoint and cgroups.
        self._record = AllocationRecord(settings.state, settings.memory_unit)
        self.node_state = NodeState(settings.node_name, self._record.read())
        self.node_state.apply_contexts(self._record.context_mib)
        checkpoint = settings.device_plugin_folder / KUBELET_CHECKPOINT
        self._observer = Observer(self.node_state, CheckpointReader(checkpoint))
        self._releaser = make_releaser(settings.cgroup_root, self.node_state, degraded)
        self._reconciler = Reconciler(
            settings, self._observer, self._releaser, self._record, self.watchdog, self.metrics
        )

        # What changes the state: the driver, and the objects of the API server.
        self.gpus = GpuMonitor(
            driver,
            card_settings(settings),
            FaultRecord(settings.state, driver_start),
            self.metrics,
            on_change=self.node_state.apply_gpus,
            record_event=self._record_node_event,
            watchdog=self.watchdog,
        )
        self._device_list = DeviceListMonitor(settings, self.node_state)
        self._watches = NodeWatches(
            client, settings.node_name, self.node_state, self.metrics, self._apply_node
        )

        # What uses the state: containers' limits, the kubelet's calls, and reports.
        self._isolation = IsolationService(
            settings, self._observer, self._record, driver, self.metrics, record_event=record_event
        )
        self._kubelet = KubeletService(
            settings,
            self._observer,
            self._releaser,
            self._isolation.manager,
            self.watchdog,
            retry_watches=self._watches.retry_now,
            record_event=record_event,
        )
        self._status = StatusPublisher(self.node_state, self.writer, self.metrics, record_event=record_event)
        self.admin_routes = AdminRoutes(
            rendering(self.metrics.registry),
            live=self.watchdog.problem,
            ready=self.unready,
            notices=self.notices,
        )
        self._report_missing(degraded)

    def _record_node_event(self, reason: str, text: str) -> None:
        self.writer.record_event(node_event(self._settings.node_name, reason, text))

    def _report_missing(self, degraded: DegradedMode) -> None:
        """Report what the agent does without, for as long as it runs."""
        if not self._settings.pod_resources_socket.parent.is_dir():
            degraded.begin(
                "pod-resources", "unequal pods that are admitted together are matched in the order of binding"
            )
        self._isolation.report_missing(degraded)
        if self._settings.kubeconfig and not kubeconfig_in_pod(self._settings.kubeconfig):
            degraded.begin(
                "kubeconfig", f"{self._settings.kubeconfig} is not a file: the service account is used"
            )

    def jobs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """The background jobs; each runs until cancelled."""
        yield self.watchdog.run()
        yield self._run()

    async def _run(self) -> None:
        await self.gpus.start(WaitingReport(self._api, self.metrics).report)
        await self._device_list.read()
        async with asyncio.TaskGroup() as tasks:
            for name, job in self._watches.jobs():
                tasks.create_task(self.watchdog.run_job(name, job))
            tasks.create_task(self._serve())

    def unready(self) -> str | None:
        """The error that ``/readyz`` returns; None if pods can be served."""
        if problem := self.gpus.problem or self._watches.problem() or self.node_state.closed_reason:
            return problem
        return None if self._kubelet.mem.up else "not registered with the kubelet"

    def notices(self) -> tuple[str, ...]:
        """The lines of ``/readyz`` about what does not keep the agent from serving pods."""
        not_offered = (self.gpus.not_offered,) if self.gpus.not_offered else ()
        return (*not_offered, *self.node_state.notices, *self._isolation.notices)

    async def _serve(self) -> None:
        """Run the jobs that should start after the lists, but at the latest after ``lists_s``.

        Without a registration the kubelet could not restart the containers of running pods. But allocations
        in another unit would be recorded in the new one, so they wait for the lists.
        """
        async with asyncio.TaskGroup() as tasks:
            listing = tasks.create_task(self._list())
            await asyncio.wait({listing}, timeout=None if self._unit_has_changed else self._lists_s)
            if not listing.done():
                log.warning("serving_unlisted", reason=self.unready())
                self._observer.observe()
                self.node_state.offer_without_node()
            for name, job in self._serving_jobs():
                tasks.create_task(self.watchdog.run_job(name, job))

    def _serving_jobs(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The jobs by name. The names are values of a metric label."""
        yield from self._isolation.jobs()
        yield "api_writer", self.writer.run()
        yield "status", self._status.run()
        yield "device_list", self._device_list.run()
        yield "gpus", self.gpus.run(self._kubelet.allocation_lock, lambda: self.node_state.allocated_gpus)
        yield from self._reconciler.jobs()
        yield from self._kubelet.jobs(self.metrics)

    async def _list(self) -> None:
        """Wait for the lists of pods and node, and release terminated pods.

        Raises ConfigError if the node does not exist, or if its memory unit has changed under allocations.
        """
        await self._watches.listed()
        if not self._watches.node.found:
            raise ConfigError(await self._no_such_node())
        self._observer.observe()
        self.node_state.mark_synced()
        await self._releaser.release(self._observer.observe().terminated)
        if self._unit_has_changed:
            previous, unit = self._record.previous_unit, self._settings.memory_unit
            allocations = self.node_state.allocations.by_container.values()
            pods = ", ".join(sorted({each.pod for each in allocations}))
            raise ConfigError(
                f"--memory-unit={unit}, but pods have allocations in {previous}: {pods}. "
                f"Start with --memory-unit={previous}, or drain the node first"
            )

    @property
    def _unit_has_changed(self) -> bool:
        """Whether there are allocations in another memory unit than that of this start."""
        has_changed = self._record.previous_unit not in (None, self._settings.memory_unit)
        return has_changed and bool(self.node_state.allocations.by_container)

    async def _no_such_node(self) -> str:
        try:
            names = ", ".join(await self._api.node_names())
        except ApiError as error:
            names = f"unknown ({error})"
        return f"NODE_NAME={self._settings.node_name!r}: no such node in the cluster; its nodes are: {names}"

    def _apply_node(self, node: LocalNode) -> None:
        if not self._watches.node.listed.is_set():
            self.gpus.report_changes(node.annotations.get(ANN_CARDS))
        reason = not_serving_reason(node, self._settings.device_list_strategy.strategy)
        self.writer.observe_node(node)
        self.gpus.update_node(node)
        self._device_list.apply_node(node)
        self.node_state.apply_node(node, reason)
