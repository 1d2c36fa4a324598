"""Composition of the extender: clients, watches, election, servers.

An orderly stop drains the binds and then releases the Lease. After any other end the Lease expires. If a job
crashes, binds in progress are still answered, within the grace period of the server.
"""

import asyncio
import socket
from collections.abc import Coroutine, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import structlog

from gpushare.adapters.extender_peers import Peers
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.extender_api import KubeExtenderApi
from gpushare.adapters.replay.kernel import KernelEngine
from gpushare.extender.binder import Binder
from gpushare.extender.clients import OPEN_PORT, Clients, is_open
from gpushare.extender.cluster import ClusterState
from gpushare.extender.events import ExtenderEventMetrics
from gpushare.extender.eviction_budget import EvictionBudget
from gpushare.extender.evictor import Evictor
from gpushare.extender.freshness import Freshness, SyncStatus
from gpushare.extender.leadership import Leadership
from gpushare.extender.lease import Replica
from gpushare.extender.ledger_page import LedgerPage
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.only_replica import Leader, OnlyReplica
from gpushare.extender.overcommit import watch_overcommit
from gpushare.extender.replay import ReplayScores
from gpushare.extender.room import RoomMaker, RoomRules
from gpushare.extender.routes import MAX_BODY_BYTES, peer_routes, scheduler_routes
from gpushare.extender.service import SchedulerService
from gpushare.extender.settings import DEFAULT_NAMES, ExtenderSettings
from gpushare.extender.waiting_pods import WaitingPods
from gpushare.extender.watches import ExtenderWatches
from gpushare.model.options import ClusterPlacement, MakeRoom
from gpushare.runtime.admin_server import AdminRoutes, rendering
from gpushare.runtime.daemon import StopStep, serve, stop_event
from gpushare.runtime.events import EventRecorder, RecorderSettings
from gpushare.runtime.http import Handler
from gpushare.runtime.listener import ANY_ADDRESS, bind_socket
from gpushare.runtime.loop_delay import watch_loop_delay
from gpushare.runtime.server import HttpServer
from gpushare.runtime.tls import MutualTls

log = structlog.get_logger()

_DRAIN_S: Final = 10.0
"""Allowance for the reads of a bind, in addition to its POST."""
_EVENT_QUEUE_SIZE: Final = 10_000
_PLACEMENTS: Final = 100
"""Placements that may wait to be written as events. kube-scheduler writes an event for each one too."""
_TLS: Final = "tls"
"""Value of the label ``right`` of the degraded mode metric."""


async def run(settings: ExtenderSettings, replica: Replica) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigError if the extender cannot start."""
    stop = stop_event()
    with (
        bind_socket(settings.host, settings.port) as listener,
        bind_socket(settings.ops_host, settings.ops_port) as ops_listener,
        _peer_socket(settings) as peer_listener,
    ):
        tls = MutualTls(settings.tls) if settings.tls else None
        access = await load_access(settings.kubeconfig)
        async with (
            KubeClient(access, unacked_s=settings.bind_timeout) as client,
            Peers(lambda: tls.client if tls else None) as peers,
            asyncio.TaskGroup() as tasks,
        ):
            extender = ExtenderDaemon(settings, replica, client, peers, tasks)
            extender.report_transport(tls)
            ports = {"port": listener, "ops_port": ops_listener, "peer_port": peer_listener}
            log.info("started", **_numbers(ports), api=client.host)
            await serve(
                stop,
                (extender.admin_routes, ops_listener),
                [*extender.jobs(), *([tls.run()] if tls else ())],
                servers=_servers(extender, tls, listener, peer_listener),
                drain=StopStep(extender.drain, settings.bind_timeout + _DRAIN_S),
            )


def _peer_socket(settings: ExtenderSettings) -> AbstractContextManager[socket.socket | None]:
    port = settings.peer_port
    return nullcontext() if port is None else bind_socket(ANY_ADDRESS, port)


def _numbers(listeners: dict[str, socket.socket | None]) -> dict[str, int]:
    return {name: each.getsockname()[1] for name, each in listeners.items() if each}


def _servers(
    extender: "ExtenderDaemon",
    tls: MutualTls | None,
    listener: socket.socket,
    peer_listener: socket.socket | None,
) -> list[tuple[HttpServer, socket.socket]]:
    """With a listener for peers, only that one has TLS: the scheduler uses loopback."""
    secured = tls.server if tls else None
    own_tls = None if peer_listener else secured
    servers = [(HttpServer(extender.scheduler_routes, max_body=MAX_BODY_BYTES, tls=own_tls), listener)]
    if peer_listener:
        server = HttpServer(extender.peer_routes, max_body=MAX_BODY_BYTES, tls=secured)
        servers.append((server, peer_listener))
    for server, _ in servers:
        extender.slices.yield_to(server.receiving)
    return servers


def _recorder(api: KubeExtenderApi, metrics: ExtenderMetrics, settings: ExtenderSettings) -> EventRecorder:
    return EventRecorder(
        api.write_event,
        ExtenderEventMetrics(metrics),
        RecorderSettings(
            per_second=settings.events_per_second,
            queue_size=_EVENT_QUEUE_SIZE,
            routine_size=_PLACEMENTS,
        ),
    )


def _replay(settings: ExtenderSettings, metrics: ExtenderMetrics) -> ReplayScores | None:
    """None with another policy. Raises KernelError if the kernel of replay is absent."""
    if settings.placement is not ClusterPlacement.REPLAY:
        return None
    return ReplayScores(KernelEngine(), metrics)


class ExtenderDaemon:
    """The parts of one replica, wired but not running."""

    def __init__(
        self,
        settings: ExtenderSettings,
        replica: Replica,
        client: KubeClient,
        peers: Peers,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._metrics = ExtenderMetrics()
        self._replay = _replay(settings, self._metrics)
        self._cluster = ClusterState(self._replay.follow if self._replay else None)
        self.slices = self._cluster.slices
        self._sync_status = SyncStatus(self._metrics)
        self._clients = Clients(settings.client_names or DEFAULT_NAMES, self._metrics)
        self._open_port = is_open(settings.host, tls=settings.tls is not None)
        api = KubeExtenderApi(client, lease_name=settings.lease_name, identity=replica.identity)
        self._recorder = _recorder(api, self._metrics, settings)
        self._watches = ExtenderWatches(
            client,
            api,
            self._cluster,
            self._recorder,
            self._sync_status,
            leads=lambda: self._leadership.leads,
            cgpu_pods=settings.cgpu_pods_per_card,
            arrived=self._replay.arrived if self._replay else None,
        )
        self._freshness = Freshness(self._sync_status, lambda: self._watches.lost_s)
        self._leadership = self._make_leadership(api, settings, replica)
        self._binder = self._make_binder(api, tasks, settings)
        self._evictor = self._make_evictor(api, settings)
        self._waiting = None if settings.make_room is MakeRoom.NEVER else WaitingPods()
        self._room = self._make_room_maker(peers, settings, self._waiting) if self._waiting else None
        self._register_gauges()
        self.scheduler_routes = self._make_routes(peers, settings.shortlist)
        self.peer_routes = peer_routes(self.scheduler_routes)
        self.admin_routes = self._make_admin_routes()

    def _make_leadership(self, api: KubeExtenderApi, settings: ExtenderSettings, replica: Replica) -> Leader:
        durations, catch_up = settings.lease_durations, self._watches.catch_up
        if settings.allow_without_lease:
            return OnlyReplica(wait_s=durations.late_s, catch_up=catch_up)
        return Leadership(
            api,
            replica=replica,
            durations=durations,
            catch_up=catch_up,
            binding=lambda: self._binder.busy or self._evictor.busy,
        )

    def _make_binder(
        self, api: KubeExtenderApi, tasks: asyncio.TaskGroup, settings: ExtenderSettings
    ) -> Binder:
        return Binder(
            self._cluster,
            api,
            announce=self._leadership.announce,
            fence=self._leadership.fence,
            record_event=self._recorder.record,
            tasks=tasks,
            durations=settings.lease_durations,
        )

    def _make_evictor(self, api: KubeExtenderApi, settings: ExtenderSettings) -> Evictor:
        return Evictor(
            self._cluster,
            api,
            announce=self._leadership.announce,
            fence=self._leadership.fence,
            durations=settings.lease_durations,
        )

    def _make_room_maker(self, peers: Peers, settings: ExtenderSettings, waiting: WaitingPods) -> RoomMaker:
        return RoomMaker(
            self._cluster,
            waiting,
            self._evictor,
            rules=RoomRules(
                dry_run=settings.make_room is MakeRoom.DRY_RUN,
                after_s=settings.make_room_after,
                budget=EvictionBudget(settings.evictions_per_hour, settings.namespace_evictions_per_hour),
            ),
            leadership=self._leadership,
            peers=peers,
            metrics=self._metrics,
            record_event=self._recorder.record,
        )

    def _make_routes(self, peers: Peers, shortlist: int) -> Handler:
        service = SchedulerService(
            self._cluster,
            binder=self._binder,
            leadership=self._leadership,
            peers=peers,
            metrics=self._metrics,
            missing=self._freshness.missing,
            shortlist=shortlist,
            waiting=self._waiting,
            replay=self._replay,
        )
        return scheduler_routes(service, self._clients)

    def _make_admin_routes(self) -> AdminRoutes:
        page = LedgerPage(lambda: self._cluster.ledger, self._cluster.pods.values)
        return AdminRoutes(
            rendering(self._metrics.registry),
            live=self._freshness.stuck,
            ready=self._freshness.unready,
            notices=self._notices,
            gauges=lambda: self.slices.run(page.steps()),
        )

    def report_transport(self, tls: MutualTls | None) -> None:
        """Report when our certificate expires, or that the port is open."""
        self._metrics.degraded.labels(_TLS).set(self._open_port)
        if tls:
            self._metrics.certificate_expiry.labels("server").set_function(lambda: tls.expires_at)
        if self._open_port:
            log.warning("degraded_mode", right=_TLS, effect=OPEN_PORT)

    def jobs(self) -> Iterable[Coroutine[Any, Any, None]]:
        """The background jobs; each runs until cancelled."""
        yield self._follow()
        yield self._lead_when_synced()
        yield self._explain_when_leading()
        yield self._recorder.run()
        if self._room:
            yield self._room.run()
        if self._replay:
            yield self._replay.run(lambda: self._cluster.ledger, self._sync_status.synced_once)
        yield watch_overcommit(self._cluster, self._recorder)
        yield watch_loop_delay(self._metrics.loop_delay.observe)

    async def drain(self) -> None:
        """Wait for the POSTs in progress; without unclear ones, allow the release of the Lease.

        After a crash or a drain that takes too long the Lease expires instead, and the next leader waits.
        """
        await self._evictor.stop()
        await self._binder.drain()
        if not (self._binder.unclear or self._evictor.unclear):
            self._leadership.release_at_end()
        self._binder.unclear.cancel()

    def _notices(self) -> Iterable[str]:
        reasons = (self._leadership.degraded, OPEN_PORT if self._open_port else None)
        own = [f"degraded: {reason}" for reason in reasons if reason]
        waiting = self._leadership.waiting
        return [*own, *([f"waiting: {waiting}"] if waiting else ()), *self._sync_status.notices()]

    async def _follow(self) -> None:
        """The Lease is read before any list starts."""
        await self._leadership.observe_lease()
        await self._watches.run()

    async def _lead_when_synced(self) -> None:
        await self._sync_status.synced_once.wait()
        await self._leadership.run()

    async def _explain_when_leading(self) -> None:
        while True:
            await self._leadership.began.wait()
            self._leadership.began.clear()
            self._watches.explainer.explain_all()

    def _register_gauges(self) -> None:
        self._metrics.leads.set_function(lambda: float(self._leadership.leads))
        self._metrics.unclear.set_function(lambda: float(len(self._binder.unclear)))
        self._metrics.degraded.labels("leases").set_function(
            lambda: float(self._leadership.degraded is not None)
        )
