"""The watches that keep the cluster in step with the API server, and their handlers."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import structlog

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.extender_resources import ALL_PODS, BUDGETS, NODES, PODS, UNHEALTHY
from gpushare.adapters.kube.pod_loads import ObservedPod
from gpushare.adapters.kube.watch import Follower
from gpushare.contract import EVENT_MALFORMED
from gpushare.extender.api import ExtenderApi
from gpushare.extender.cluster import ClusterState
from gpushare.extender.events import Explainer
from gpushare.extender.freshness import SyncStatus
from gpushare.extender.seal_key import follow_key, load_sealer
from gpushare.model.cards import unreadable_list
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.disruption import DisruptionBudget
from gpushare.model.modes import Mode
from gpushare.model.objects import WHILE_AGENT_STARTS, Node, Pod
from gpushare.model.resources import Load
from gpushare.ports import node_event
from gpushare.runtime.events import EventRecorder
from gpushare.runtime.long_lived import exclude_modules, exclude_present
from gpushare.scheduling.placement import placement_problem

log = structlog.get_logger()


class PodHandler:
    """Handles pods. Only the leader explains why a pod waits."""

    def __init__(
        self, cluster: ClusterState, explainer: Explainer, sync_status: SyncStatus, leads: Callable[[], bool]
    ) -> None:
        self._cluster = cluster
        self._explainer = explainer
        self._leads = leads
        self.synced = sync_status.synced
        self.failed = sync_status.failed

    def changed(self, batch: Iterable[Upserted[Pod] | Deleted]) -> None:
        """Apply the changes, and explain why pods without a node wait."""
        for pod in self._cluster.change_pods(batch):
            if pod.node is None and self._leads():
                self._explainer.explain(pod)


class AllPodsHandler:
    """Handles pods with and without GPUs: of the latter, only their CPU and memory are kept.

    ``arrived`` is called with each pod with GPUs that is seen first, and with each other one that is first
    seen on a node, before they are applied.
    """

    def __init__(
        self, cluster: ClusterState, handler: PodHandler, arrived: Callable[[ObservedPod], None]
    ) -> None:
        self._cluster = cluster
        self._handler = handler
        self._arrived = arrived
        self.synced = handler.synced
        self.failed = handler.failed

    def changed(self, batch: Iterable[Upserted[ObservedPod] | Deleted]) -> None:
        """Apply the changes."""
        batch = list(batch)
        for change in batch:
            if isinstance(change, Upserted) and self._has_arrived(change):
                self._arrived(change.value)
        self._cluster.change_loads(dict(_loads(batch)))
        self._handler.changed(_managed(batch))

    def _has_arrived(self, change: Upserted[ObservedPod]) -> bool:
        if change.value.managed:
            return change.key not in self._cluster.pods
        known = self._cluster.ledger.loads.get(change.key)
        is_bound = change.value.load.node is not None and not change.value.finished
        return is_bound and (known is None or known.node is None)


def _loads(batch: Iterable[Upserted[ObservedPod] | Deleted]) -> Iterator[tuple[str, Load | None]]:
    """The loads that are not ended by a change of a managed pod, or by a deletion."""
    for change in batch:
        if isinstance(change, Deleted):
            continue
        if not change.value.finished:
            yield change.key, change.value.load
        elif change.value.managed is None:
            yield change.key, None


def _managed(batch: Iterable[Upserted[ObservedPod] | Deleted]) -> Iterator[Upserted[Pod] | Deleted]:
    for change in batch:
        if isinstance(change, Deleted):
            yield change
        elif change.value.managed is not None:
            yield Upserted(change.key, change.value.managed)


class NodeHandler:
    """Handles nodes. A GPU in mode ``cgpu`` takes at most ``cgpu_pods`` pods, 0 for any number."""

    def __init__(
        self, cluster: ClusterState, recorder: EventRecorder, sync_status: SyncStatus, cgpu_pods: int = 0
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._cgpu_pods = cgpu_pods
        self.synced = sync_status.synced
        self.failed = sync_status.failed

    def changed(self, batch: Iterable[Upserted[Node] | Deleted]) -> None:
        """Apply the changes, and report the problems of a node once."""
        # The maximum is a setting of this extender, which no object of the API has.
        changes = [self._limited(change) for change in batch]
        for change in changes:
            if isinstance(change, Upserted):
                self._report(change.value)
        self._cluster.change_nodes(changes)

    def _limited(self, change: Upserted[Node] | Deleted) -> Upserted[Node] | Deleted:
        if isinstance(change, Deleted) or change.value.mode is not Mode.CGPU:
            return change
        return Upserted(change.key, replace(change.value, pods_per_card=self._cgpu_pods))

    def _report(self, node: Node) -> None:
        book = self._cluster.ledger.books.get(node.name)
        before = book.node if book else None
        # Metrics and inspect tell if one of these reasons lasts.
        if node.closed and node != before and node.closed not in WHILE_AGENT_STARTS:
            log.warning("node_closed", node=node.name, reason=node.closed)
        problem = placement_problem(node)
        if problem and (before is None or before.placement != node.placement):
            log.warning("placement_unknown", node=node.name, problem=problem)
            self._recorder.record(node_event(node.name, EVENT_MALFORMED, problem))


class BudgetHandler:
    """Handles disruption budgets."""

    def __init__(self, cluster: ClusterState, sync_status: SyncStatus) -> None:
        self.changed = cluster.change_budgets
        self.synced = sync_status.synced
        self.failed = sync_status.failed


class ConfigMapHandler:
    """Handles the ConfigMaps that list unhealthy GPUs."""

    def __init__(self, cluster: ClusterState, recorder: EventRecorder, sync_status: SyncStatus) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self.synced = sync_status.synced
        self.failed = sync_status.failed

    def changed(self, batch: Iterable[Upserted[str] | Deleted]) -> None:
        """Apply the lists. Invalid entries are reported and ignored."""
        for node, invalid in self._cluster.change_unhealthy(batch).items():
            log.warning("unhealthy_list_unreadable", node=node, entries=invalid)
            self._recorder.record(node_event(node, EVENT_MALFORMED, unreadable_list(node, invalid)))


class ExtenderWatches:
    """Follows pods and nodes, and what the extender can work without: unhealthy GPUs and budgets.

    ``leads`` returns whether this replica explains why pods wait; ``cgpu_pods`` is the maximum of pods on a
    GPU in mode ``cgpu``, 0 for any number. Only with ``arrived`` are pods without GPUs followed too.
    """

    def __init__(  # noqa: PLR0913 - the parts of the extender that it uses
        self,
        client: KubeClient,
        api: ExtenderApi,
        cluster: ClusterState,
        recorder: EventRecorder,
        status: SyncStatus,
        *,
        leads: Callable[[], bool],
        cgpu_pods: int,
        arrived: Callable[[ObservedPod], None] | None = None,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._status = status
        self.explainer = Explainer(cluster, recorder)
        turn = self._after_slice
        self._pods = self._pod_follower(client, PodHandler(cluster, self.explainer, status, leads), arrived)
        self._nodes: Follower[Node] = Follower(
            client, NODES, NodeHandler(cluster, recorder, status, cgpu_pods), ends_if_restored=True, turn=turn
        )
        self._unhealthy: Follower[str] = Follower(
            client, UNHEALTHY, ConfigMapHandler(cluster, recorder, status), turn=turn
        )
        self._budgets: Follower[DisruptionBudget] = Follower(
            client, BUDGETS, BudgetHandler(cluster, status), turn=turn
        )

    def _pod_follower(
        self, client: KubeClient, handler: PodHandler, arrived: Callable[[ObservedPod], None] | None
    ) -> Follower[Pod] | Follower[ObservedPod]:
        cluster, turn = self._cluster, self._after_slice
        if arrived:
            every = AllPodsHandler(cluster, handler, arrived)
            return Follower(client, ALL_PODS, every, cluster.known_pods, ends_if_restored=True, turn=turn)
        return Follower(client, PODS, handler, cluster.known_pods, ends_if_restored=True, turn=turn)

    @property
    def lost_s(self) -> float:
        """Return the seconds since a required watch was lost; 0 while both work."""
        return max(self._pods.lost_s, self._nodes.lost_s)

    async def run(self) -> None:
        """Follow until cancelled."""
        exclude_modules()
        async with asyncio.TaskGroup() as tasks:
            for job in (self._follow_pods(), self._nodes.run(), self._unhealthy.run(), self._budgets.run()):
                tasks.create_task(job)

    async def catch_up(self) -> None:
        """Return once the cluster has all changes of pods and nodes that were made before this call."""
        await asyncio.gather(self._pods.refresh(), self._nodes.refresh())

    async def _follow_pods(self) -> None:
        """Claims are checked when pods are applied, so the key is loaded first."""
        self._cluster.sealer = await load_sealer(self._api, self._status)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            tasks.create_task(follow_key(self._api, self._status, self._cluster))

    async def _after_slice(self) -> None:
        exclude_present()
        await self._cluster.slices.turn()
