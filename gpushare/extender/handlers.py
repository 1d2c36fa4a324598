"""From watches to the cluster: who listens to which resource, and what is known to be listed."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import structlog

from gpushare.contract import EVENT_MALFORMED, SYSTEM_NAMESPACE, UNHEALTHY_PREFIX
from gpushare.errors import ApiError
from gpushare.extender.cluster import Cluster
from gpushare.extender.events import EventQueue
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.modes import Mode
from gpushare.model.objects import Node, Pod
from gpushare.ports import node_event
from gpushare.scheduling.placement import DEFAULT, POLICIES

log = structlog.get_logger()

_REQUIRED: Final = ("nodes", "pods")
_WITHOUT: Final = {
    "configmaps": "the agents' lists of unhealthy cards are not known",
    "secrets": "annotations that agree are believed",
}
"""What it means that the right to a resource is missing that the extender can do without."""


class SyncStatus:
    """Which resources are listed; implements ``Readiness``.

    ConfigMaps are optional: without the right to them no card is known to be unhealthy.
    """

    def __init__(self, metrics: ExtenderMetrics) -> None:
        self._metrics = metrics
        self._listed: set[str] = set()
        self._trouble: dict[str, str] = {}
        self.synced_once = asyncio.Event()

    def missing(self) -> str | None:
        """What is not listed yet, and why if the API said why."""
        waiting = [name for name in _REQUIRED if name not in self._listed]
        if not waiting:
            return None
        reasons = "; ".join(self._trouble[name] for name in waiting if name in self._trouble)
        return f"the extender has not listed {' and '.join(waiting)} yet" + (
            f": {reasons}" if reasons else ""
        )

    def synced(self, resource: str) -> None:
        """The resource's list has been taken in."""
        self._listed.add(resource)
        self._trouble.pop(resource, None)
        self._metrics.synced.labels(resource).set(1)
        self._metrics.reduced.labels(resource).set(0)
        if self.missing() is None:
            self.synced_once.set()

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """The API refuses, or does not answer; a missing right is named."""
        self._metrics.watch_restarts.labels(resource).inc()
        if error.status == HTTPStatus.FORBIDDEN:
            self._metrics.reduced.labels(resource).set(1)
        if self._trouble.get(resource) != str(error):
            _tell_trouble(resource, error, retry_in_s)
        self._trouble[resource] = str(error)


def _tell_trouble(resource: str, error: ApiError, retry_s: float) -> None:
    if error.status == HTTPStatus.FORBIDDEN and resource in _WITHOUT:
        log.warning("reduced_mode", right=resource, effect=_WITHOUT[resource], reason=str(error))
    else:
        log.warning(
            "watch_restarted", resource=resource, status=error.status, reason=str(error), retry_s=retry_s
        )


class PodHandler:
    """Listens to pods. Only the replica that binds tells users why a pod waits."""

    def __init__(
        self, cluster: Cluster, event_queue: EventQueue, feeds: SyncStatus, leads: Callable[[], bool]
    ) -> None:
        self._cluster = cluster
        self._event_queue = event_queue
        self._leads = leads
        self.synced = feeds.synced
        self.failed = feeds.failed

    def changed(self, batch: Iterable[Upserted[Pod] | Deleted]) -> None:
        """Take in pods; forget what was said about those that wait no longer."""
        changes = list(batch)
        for pod in self._cluster.change_pods(changes):
            if pod.node is None and self._leads():
                self._event_queue.explain(pod)
            elif pod.node is not None:
                self._event_queue.forget(pod.uid)
        for change in changes:
            if isinstance(change, Deleted):
                self._event_queue.forget(change.key)


class NodeHandler:
    """Listens to nodes. A card of mode ``cgpu`` takes ``cgpu_pods`` pods at most, 0 for any number."""

    def __init__(self, cluster: Cluster, feeds: SyncStatus, cgpu_pods: int = 0) -> None:
        self._cluster = cluster
        self._cgpu_pods = cgpu_pods
        self.synced = feeds.synced
        self.failed = feeds.failed

    def changed(self, batch: Iterable[Upserted[Node] | Deleted]) -> None:
        """Take in nodes; say once what is odd about one."""
        changes = [self._limited(change) for change in batch]
        for change in changes:
            if isinstance(change, Upserted) and change.value != self._before(change.key):
                _tell_oddities(change.value)
        self._cluster.change_nodes(changes)

    def _limited(self, change: Upserted[Node] | Deleted) -> Upserted[Node] | Deleted:
        if isinstance(change, Deleted) or change.value.mode is not Mode.CGPU:
            return change
        return Upserted(change.key, replace(change.value, pods_per_card=self._cgpu_pods))

    def _before(self, name: str) -> Node | None:
        book = self._cluster.ledger.books.get(name)
        return book.node if book else None


def _tell_oddities(node: Node) -> None:
    if node.closed:
        log.warning("node_closed", node=node.name, reason=node.closed)
    if node.placement is not None and node.placement not in POLICIES:
        log.warning(
            "placement_unknown", node=node.name, label=node.placement, known=list(POLICIES), used=DEFAULT
        )


class ConfigMapHandler:
    """Listens to the ConfigMaps that name unhealthy cards."""

    def __init__(self, cluster: Cluster, event_queue: EventQueue, feeds: SyncStatus) -> None:
        self._cluster = cluster
        self._event_queue = event_queue
        self.synced = feeds.synced
        self.failed = feeds.failed

    def changed(self, batch: Iterable[Upserted[str] | Deleted]) -> None:
        """Take in the lists; entries that name no card are told, and disable nothing."""
        for node, odd in self._cluster.change_unhealthy(batch).items():
            entries = ", ".join(map(repr, odd))
            name = f"{SYSTEM_NAMESPACE}/{UNHEALTHY_PREFIX}{node}"
            text = f"ConfigMap {name}: {entries} is no card index; write gpus: 0,2"
            log.warning("unhealthy_list_unreadable", node=node, entries=odd)
            self._event_queue.write(node_event(node, EVENT_MALFORMED, text))
