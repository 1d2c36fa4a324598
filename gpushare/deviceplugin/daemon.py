"""The node agent put together: driver, record, watches, endpoints; started and stopped in order.

Start order: the cards and the record, then the pods and the node as the API has them, and only then
the registration with the kubelet: no call is answered before it is known who lives here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import structlog

from gpushare.adapters.cgroups import Cgroups
from gpushare.adapters.kube.agent import AgentApi
from gpushare.adapters.kube.agent_resources import own_node, pods_of, tenants_of
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_configuration
from gpushare.adapters.kube.watch import Follower
from gpushare.adapters.kubelet.folder import FolderWatch, check_folder
from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.adapters.kubelet.pods import KubeletAccess, fetch_pods
from gpushare.adapters.nvml import Nvml
from gpushare.contract import ANN_CARDS, EVENT_NOT_SERVING, KUBELET_CHECKPOINT, LABEL_NO_ISOLATION
from gpushare.deviceplugin.allocator import Allocator
from gpushare.deviceplugin.cards import Cards
from gpushare.deviceplugin.checkpoints import Checkpoints, served_by_name
from gpushare.deviceplugin.household import Household
from gpushare.deviceplugin.intake import NodeIntake, PodIntake
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.modes import serving
from gpushare.deviceplugin.plugins import CorePlugin, MemPlugin
from gpushare.deviceplugin.publisher import Publisher
from gpushare.deviceplugin.record import Record
from gpushare.deviceplugin.registrar import Registrar
from gpushare.deviceplugin.settings import Settings
from gpushare.errors import ApiError, ConfigError, GpuShareError, KubeletError
from gpushare.model.facts import NodeFacts
from gpushare.model.tenants import Tenant
from gpushare.ports import Gpus, node_note
from gpushare.runtime.operators import operators_app
from gpushare.runtime.serving import bind_socket, make_server, stop_event

log = structlog.get_logger()

_LOOK_AGAIN_S: Final = 1.0
_RETRY_S: Final = 5.0
_ASK_S: Final = 2.0
_LISTS_S: Final = 10.0


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises GpuShareError where it cannot start."""
    stop = stop_event()
    listener = bind_socket(settings.ops_host, settings.ops_port)
    check_folder(settings.folder)
    configuration = await load_configuration(settings.kubeconfig)
    async with Nvml() as gpus, KubeClient(configuration) as client, asyncio.TaskGroup() as tasks:
        agent = Agent(settings, client, gpus)
        await agent.cards.start()
        server = make_server(agent.operators_app)
        answering = tasks.create_task(server.serve(sockets=[listener]))
        background = [tasks.create_task(job) for job in agent.jobs()]
        log.info("started", node=settings.node, ops_port=listener.getsockname()[1], api=client.host)
        await stop.wait()
        log.info("stopping")
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        server.should_exit = True
        await answering


class Agent:
    """All parts, wired but not running."""

    def __init__(self, settings: Settings, client: KubeClient, gpus: Gpus) -> None:
        self._settings = settings
        self._api = AgentApi(client, node=settings.node, identity=settings.identity)
        self.metrics = PluginMetrics()
        self.publisher = Publisher(self._api, self.metrics)
        self._record = Record(settings.state, settings.cards.unit)
        groups = Cgroups(settings.cgroups)
        if not groups.visible:
            log.warning(
                "reduced_mode", right="cgroups", effect="a pod's card is free once the API has dropped it"
            )
        self.household = Household(
            settings.node,
            self._record.read(),
            checkpoint=Checkpoints(
                settings.folder / KUBELET_CHECKPOINT, lambda: self.household.tenancy.cards
            ),
            has_processes=groups.has_processes if groups.visible else None,
            publisher=self.publisher,
            metrics=self.metrics,
        )
        self.allocator = Allocator(
            self.household,
            self._record,
            settings.manners,
            tell=self.publisher.tell,
            strangers=_strangers(settings.kubelet) if settings.kubelet else None,
        )
        self.cards = Cards(
            settings.node,
            gpus,
            settings.cards,
            self.metrics,
            take=self.household.take_lineup,
            tell=self.publisher.tell,
        )
        self._mem = MemPlugin(self.household, self.allocator)
        self._core = CorePlugin(self.household, self.allocator)
        self._pods = PodIntake(self.household)
        self._node = NodeIntake(self._see_node)
        self._pod_follower = Follower(client, pods_of(settings.node), self._pods)
        self._node_follower = Follower(client, own_node(settings.node), self._node)
        self.operators_app = operators_app(self.metrics.registry, live=lambda: None, ready=self.unready)

    def jobs(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What runs in the background until it is cancelled."""
        yield self._node_follower.run()
        yield self._pod_follower.run()
        yield self._serve()

    def unready(self) -> str | None:
        """Why pods cannot be served, None where they can."""
        for what, intake in (("pods", self._pods), ("node", self._node)):
            if not intake.listed.is_set():
                return f"{what}: {intake.trouble}"
        if self.household.refusal:
            return self.household.refusal
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
                self.household.refusal = None
            for job in (
                self.publisher.run(),
                self.household.publish(),
                self.cards.run(),
                self._follow_checkpoint(),
                self._ask_for_owners(),
                self._let_go(),
                self._keep_record(),
                Registrar(self._mem, self._settings.folder, self.metrics).run(),
                self._serve_core(),
            ):
                tasks.create_task(job)

    async def _settle(self) -> None:
        """Once all pods are known. Raises ConfigError where the node is not there or its unit has changed."""
        await asyncio.gather(self._node.listed.wait(), self._pods.listed.wait())
        if not self._node.found:
            raise ConfigError(await self._no_such_node())
        self.household.settle()
        kept, unit = self._record.kept_unit, self._settings.cards.unit
        if kept not in (None, unit) and (grants := self.household.tenancy.grants):
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

    def _see_node(self, facts: NodeFacts) -> None:
        if not self._node.listed.is_set():
            self.cards.compare(facts.annotations.get(ANN_CARDS))
        refusal = serving(facts)
        if refusal and refusal != self.household.refusal:
            log.warning("not_serving", reason=refusal)
            self.publisher.tell(node_note(self._settings.node, EVENT_NOT_SERVING, refusal))
        manners = self._settings.manners
        isolate = facts.labels.get(LABEL_NO_ISOLATION) != "true"
        self.allocator.manners = replace(manners, style=replace(manners.style, isolate=isolate))
        self.publisher.node_seen(facts)
        self.cards.see_node(facts)
        self.household.take_node(facts, refusal)

    async def _follow_checkpoint(self) -> None:
        """The kubelet has served a container: see which one it was."""
        while True:
            with suppress(KubeletError), FolderWatch(self._settings.folder) as names:
                self.household.refresh()
                async for name in names:
                    if name in (KUBELET_CHECKPOINT, ""):
                        self.household.refresh()
            await asyncio.sleep(_RETRY_S)

    async def _ask_for_owners(self) -> None:
        """Where the checkpoint cannot be read, the kubelet is asked who got what was given."""
        resources = PodResources(self._settings.pod_resources)
        while True:
            await asyncio.sleep(_ASK_S)
            unsure = any(not grant.sure for grant in self.household.tenancy.grants.values())
            if unsure and self.household.refresh() is None:
                with suppress(KubeletError):
                    found = await resources.list()
                    self.household.take_served(served_by_name(found, self.household.tenancy))

    async def _let_go(self) -> None:
        """Cards go back when the last process of their pod has ended, which nobody reports."""
        while True:
            patience_s = _LOOK_AGAIN_S if self.household.let_go() else None
            with suppress(TimeoutError):
                await asyncio.wait_for(self.household.changed(), patience_s)

    async def _keep_record(self) -> None:
        """What Allocate did not write itself: new owners, and grants that have ended."""
        kept = None
        while True:
            grants = self.household.tenancy.grants
            if grants is kept:
                await self.household.changed()
                continue
            try:
                await self._record.keep(lambda: self.household.tenancy.grants)
                kept = grants
            except ConfigError as error:
                log.warning("record_not_written", reason=str(error))
                await asyncio.sleep(_RETRY_S)


def _strangers(access: KubeletAccess) -> Callable[[], Awaitable[list[Tenant]]]:
    """Asks the kubelet for its pods; one that does not answer knows of none."""

    async def ask() -> list[Tenant]:
        try:
            return tenants_of(await fetch_pods(access))
        except GpuShareError as error:
            log.warning("kubelet_not_asked", reason=str(error))
            return []

    return ask
