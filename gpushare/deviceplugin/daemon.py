"""The node agent put together: driver, record, watches, endpoints; started and stopped in order.

Start order: the cards and the record, then the pods and the node as the API has them, and only then
the registration with the kubelet: no call is answered before it is known who lives here.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import structlog

from gpushare.adapters.cgroups import Cgroups
from gpushare.adapters.kube.agent_api import AgentApi
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import kubeconfig_in_pod, load_access
from gpushare.adapters.kubelet.folder import check_folder
from gpushare.adapters.kubelet.pods import check_access
from gpushare.adapters.nvml import Nvml
from gpushare.adapters.pids import hosts_proc
from gpushare.contract import ANN_CARDS, EVENT_NOT_SERVING, KUBELET_CHECKPOINT
from gpushare.deviceplugin.api.projection import Projector
from gpushare.deviceplugin.api.watches import Watches
from gpushare.deviceplugin.api.writer import ApiWriter
from gpushare.deviceplugin.core.node_patch import serving
from gpushare.deviceplugin.isolation.files import MPS, EnforcementFiles, MpsStatus
from gpushare.deviceplugin.isolation.manager import RIGHT, EnforcementManager
from gpushare.deviceplugin.isolation.pacer import COMPUTE, Pacer
from gpushare.deviceplugin.isolation.process_owners import ProcessOwners
from gpushare.deviceplugin.isolation.reporter import UncountedReporter
from gpushare.deviceplugin.kubelet.allocator import Allocator
from gpushare.deviceplugin.kubelet.client import kubelet_client
from gpushare.deviceplugin.kubelet.plugins import CorePlugin, MemPlugin
from gpushare.deviceplugin.kubelet.registrar import Registrar
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.cards import CardMonitor
from gpushare.deviceplugin.node.checkpoint import CheckpointReader
from gpushare.deviceplugin.node.reconciler import Reconciler
from gpushare.deviceplugin.node.record import Record
from gpushare.deviceplugin.node.release import CardReleaser
from gpushare.deviceplugin.node.state import NodeState
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ApiError, ConfigError
from gpushare.model.modes import Mode
from gpushare.model.own_node import OwnNode
from gpushare.ports import AgentDriver, node_event
from gpushare.runtime.admin_server import admin_app, rendering
from gpushare.runtime.daemon import serve, stop_event
from gpushare.runtime.serving import bind_socket

log = structlog.get_logger()

_LISTS_S: Final = 10.0


async def run(settings: AgentSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises GpuShareError where it cannot start."""
    stop = stop_event()
    check_folder(settings.folder)
    if settings.kubelet:
        check_access(settings.kubelet)
    access = await load_access(kubeconfig_in_pod(settings.kubeconfig))
    with bind_socket(settings.ops_host, settings.ops_port) as listener:
        async with Nvml() as gpus, KubeClient(access) as client:
            agent = Agent(settings, client, gpus)
            await agent.cards.start()
            log.info("started", node=settings.node, ops_port=listener.getsockname()[1], api=client.host)
            await serve(stop, (agent.admin_app, listener), agent.jobs())


class Agent:
    """All parts, wired but not running."""

    def __init__(self, settings: AgentSettings, client: KubeClient, driver: AgentDriver) -> None:
        self._settings = settings
        self._api = AgentApi(client, node=settings.node, identity=settings.identity)
        self.metrics = PluginMetrics()
        self.watchdog = Watchdog(self.metrics)
        self.publisher = ApiWriter(self._api, self.metrics, self.watchdog)
        self._record = Record(settings.state, settings.cards.unit)
        checkpoints = CheckpointReader(
            settings.folder / KUBELET_CHECKPOINT, lambda: self.node_state.allocations.cards
        )
        self.node_state = NodeState(settings.node, self._record.read(), checkpoints)
        groups = Cgroups(settings.cgroups)
        self._releaser = CardReleaser(self.node_state, groups.kept if groups.visible else None)
        places = EnforcementFiles(settings.manners.style.folders)
        proc = settings.proc or hosts_proc()
        controls = MpsStatus(settings.manners.style.mps)
        self._keeper = EnforcementManager(
            self.node_state, self._record, places, controls, self.metrics, paces=proc is not None
        )
        self._pacer = (
            self._make_pacer(driver, places.folders.state, proc) if proc and places.visible else None
        )
        self._tell_reductions(groups, places, controls)
        self._projector = Projector(
            self.node_state,
            self.publisher,
            self.metrics,
            settings.manners.style,
            record_event=self.publisher.record_event,
        )
        self._upkeep = Reconciler(
            settings, self.node_state, self._releaser, self._record, self.watchdog, self.metrics
        )
        allocator = Allocator(
            self.node_state,
            self._releaser,
            self._keeper,
            settings.manners,
            kubelet=kubelet_client(settings.kubelet, settings.pod_resources),
            tell=self.publisher.record_event,
            watchdog=self.watchdog,
        )
        self.cards = self._make_cards(driver)
        self._mem = MemPlugin(self.node_state, allocator)
        self._core = CorePlugin(self.node_state, allocator)
        self._watches = Watches(client, settings.node, self.node_state, self.metrics, self._see_node)
        self.admin_app = admin_app(
            rendering(self.metrics.registry),
            live=self.watchdog.trouble,
            ready=self.unready,
            notices=lambda: self.node_state.notices,
        )

    def _make_cards(self, driver: AgentDriver) -> CardMonitor:
        return CardMonitor(
            self._settings.node,
            driver,
            self._settings.cards,
            self.metrics,
            on_change=self.node_state.update_gpus,
            record_event=self.publisher.record_event,
            watchdog=self.watchdog,
        )

    def _make_pacer(self, driver: AgentDriver, state: Path, proc: Path) -> Pacer:
        reporter = UncountedReporter(self.node_state, proc, record_event=self.publisher.record_event)
        return Pacer(
            self.node_state, self._keeper, driver, ProcessOwners(state, proc), reporter, self.metrics
        )

    def _tell_reductions(self, groups: Cgroups, places: EnforcementFiles, controls: MpsStatus) -> None:
        """Mounts that the original's manifest does not have, and a file that not every node has."""
        if not groups.visible:
            self._reduced("cgroups", "a pod's card is free once the API has dropped it")
        if not self._settings.pod_resources.parent.is_dir():
            self._reduced("pod-resources", "unlike pods that come together are taken in the order of binding")
        if not places.visible:
            self._reduced(RIGHT, "no container is held to its amount, whatever the node's mode")
        elif not self._pacer:
            effect = "no container is held to its part of a card's time, and nobody is told of what goes past"
            self._reduced(COMPUTE, f"{effect} the isolation library: hostPID is missing")
        if not controls.visible:
            self._reduced(MPS, f"containers of a node of mode {Mode.MPS} go past MPS")
        if self._settings.kubeconfig and not kubeconfig_in_pod(self._settings.kubeconfig):
            self._reduced(
                "kubeconfig", f"{self._settings.kubeconfig} is no file: the service account is used"
            )

    def _reduced(self, right: str, effect: str) -> None:
        log.warning("reduced_mode", right=right, effect=effect)
        self.metrics.reduced.labels(right).set(1)

    def jobs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What runs in the background until it is cancelled."""
        yield self.watchdog.run()
        for name, job in self._watches.jobs():
            yield self.watchdog.run_job(name, job)
        yield self._serve()

    def unready(self) -> str | None:
        """Why pods cannot be served as they should be, None where they can."""
        if trouble := self._watches.trouble() or self.node_state.not_serving_reason:
            return trouble
        return None if self._mem.up else "not registered with the kubelet"

    async def _serve(self) -> None:
        """Everything that had better wait for the lists, but not for ever.

        Without a registration the kubelet could not restart the containers of running pods.
        """
        async with asyncio.TaskGroup() as tasks:
            listing = tasks.create_task(self._settle())
            await asyncio.wait({listing}, timeout=_LISTS_S)
            if not listing.done():
                log.warning("serving_unlisted", reason=self.unready())
                self.node_state.serve_without_node()
            for name, job in self._jobs_of_a_settled_agent():
                tasks.create_task(self.watchdog.run_job(name, job))

    def _jobs_of_a_settled_agent(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        # First: a kubelet that was just started starts containers once there is a registration.
        yield "isolation", self._keeper.run()
        if self._pacer:
            yield "pacing", self._pacer.run()
        yield "publisher", self.publisher.run()
        yield "teller", self._projector.run()
        if self._settings.cards.watch_health:
            yield "cards", self.cards.run()
        yield from self._upkeep.jobs()
        yield "registration", Registrar(self._mem, self._settings.folder, self.metrics).run()
        yield "core registration", self._serve_core()

    async def _settle(self) -> None:
        """Once all pods are known. Raises ConfigError where the node is not there or its unit has changed."""
        await self._watches.listed()
        if not self._watches.node.found:
            raise ConfigError(await self._no_such_node())
        self.node_state.mark_synced()
        await self._releaser.release_terminated()
        kept, unit = self._record.previous_unit, self._settings.cards.unit
        if kept not in (None, unit) and (grants := self.node_state.allocations.by_container):
            pods = ", ".join(sorted({grant.pod for grant in grants.values()}))
            raise ConfigError(
                f"--memory-unit={unit}, but pods hold cards in {kept}: {pods}. "
                f"Start with --memory-unit={kept}, or drain the node first"
            )

    async def _serve_core(self) -> None:
        await self._core.wanted()
        await Registrar(self._core, self._settings.folder, self.metrics).run()

    async def _no_such_node(self) -> str:
        try:
            names = ", ".join(await self._api.node_names())
        except ApiError as error:
            names = f"unknown ({error})"
        return f"NODE_NAME={self._settings.node!r}: no such node in the cluster; its nodes are: {names}"

    def _see_node(self, facts: OwnNode) -> None:
        if not self._watches.node.listed.is_set():
            self.cards.report_changes(facts.annotations.get(ANN_CARDS))
        refusal = serving(facts)
        if refusal and refusal != self.node_state.not_serving_reason:
            log.warning("not_serving", reason=refusal)
            self.publisher.record_event(node_event(self._settings.node, EVENT_NOT_SERVING, refusal))
        self.publisher.observe_node(facts)
        self.cards.update_node(facts)
        self.node_state.update_node(facts, refusal)
