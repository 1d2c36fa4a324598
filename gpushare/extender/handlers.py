"""Handlers of the watches, and which resources are listed."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import structlog

from gpushare.contract import EVENT_MALFORMED
from gpushare.errors import ApiError
from gpushare.extender.cluster import ClusterState
from gpushare.extender.events import Explainer
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.model.cards import unreadable_list
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.modes import Mode
from gpushare.model.objects import NO_UNITS, Node, Pod
from gpushare.ports import node_event
from gpushare.runtime.events import EventRecorder
from gpushare.scheduling.placement import DEFAULT, POLICIES

log = structlog.get_logger()

_REQUIRED: Final = ("nodes", "pods")
_WITHOUT: Final = {
    "configmaps": "the lists of unhealthy GPUs are unknown",
    "secrets": "bind annotations are accepted without a seal",
    "poddisruptionbudgets": "preempt adds victims without regard to disruption budgets",
}
"""The effects of missing rights to optional resources, and of a missing Secret."""
WITHOUT_STATUS: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY)
"""No right, no Secret, or an immutable Secret without a key: waiting does not help."""


class SyncStatus:
    """Which resources are listed; implements ``Readiness``.

    Only nodes and pods are required; ``_WITHOUT`` has the effects of the others.
    """

    def __init__(self, metrics: ExtenderMetrics) -> None:
        self._metrics = metrics
        self._listed: set[str] = set()
        self._problems: dict[str, str] = {}
        self._degraded: set[str] = set()
        self._unanswered: set[str] = set()
        self.synced_once = asyncio.Event()

    def missing(self) -> str | None:
        """The resources that are not listed yet, with the API server's errors; None once all are listed."""
        waiting = [name for name in _REQUIRED if name not in self._listed]
        if not waiting:
            return None
        # Pods are listed once the key of their seals is known.
        causes = [*waiting, "secrets"] if "pods" in waiting else waiting
        reasons = "; ".join(self._problems[name] for name in causes if name in self._problems)
        return f"the extender has not listed {' and '.join(waiting)} yet" + (
            f": {reasons}" if reasons else ""
        )

    def problems(self) -> str:
        """The last errors of the required resources."""
        return "; ".join(f"{name}: {self._problems[name]}" for name in _REQUIRED if name in self._problems)

    @property
    def unanswered(self) -> bool:
        """Whether the last request for a required resource had no answer."""
        return not self._unanswered.isdisjoint(_REQUIRED)

    def notices(self) -> Iterable[str]:
        """Which optional resources are missing, with the effect and the reason."""
        for name in sorted(self._degraded):
            yield f"degraded: {_WITHOUT[name]}: {self._problems[name]}"

    def synced(self, resource: str) -> None:
        """The list of a resource has been applied."""
        self._listed.add(resource)
        self._problems.pop(resource, None)
        self._degraded.discard(resource)
        self._unanswered.discard(resource)
        self._metrics.synced.labels(resource).set(1)
        self._metrics.degraded.labels(resource).set(0)
        if self.missing() is None:
            self.synced_once.set()

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        """A list or watch failed and is retried."""
        self._metrics.watch_restarts.labels(resource).inc()
        (self._unanswered.discard if error.status else self._unanswered.add)(resource)
        if error.status in WITHOUT_STATUS:
            self._metrics.degraded.labels(resource).set(1)
            if resource in _WITHOUT:
                self._degraded.add(resource)
        if self._problems.get(resource) != str(error):
            _log_failure(resource, error, retry_in_s)
        self._problems[resource] = str(error)


def _log_failure(resource: str, error: ApiError, retry_s: float) -> None:
    if error.status in WITHOUT_STATUS and resource in _WITHOUT:
        log.warning("degraded_mode", right=resource, effect=_WITHOUT[resource], reason=str(error))
    else:
        log.warning(
            "watch_restarted", resource=resource, status=error.status, reason=str(error), retry_s=retry_s
        )


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


class NodeHandler:
    """Handles nodes. A GPU in mode ``cgpu`` takes at most ``cgpu_pods`` pods, 0 for any number."""

    def __init__(self, cluster: ClusterState, sync_status: SyncStatus, cgpu_pods: int = 0) -> None:
        self._cluster = cluster
        self._cgpu_pods = cgpu_pods
        self.synced = sync_status.synced
        self.failed = sync_status.failed

    def changed(self, batch: Iterable[Upserted[Node] | Deleted]) -> None:
        """Apply the changes, and log the problems of a node once."""
        # The maximum is a setting of this extender, which no object of the API has.
        changes = [self._limited(change) for change in batch]
        for change in changes:
            if isinstance(change, Upserted) and change.value != self._before(change.key):
                _log_problems(change.value)
        self._cluster.change_nodes(changes)

    def _limited(self, change: Upserted[Node] | Deleted) -> Upserted[Node] | Deleted:
        if isinstance(change, Deleted) or change.value.mode is not Mode.CGPU:
            return change
        return Upserted(change.key, replace(change.value, pods_per_card=self._cgpu_pods))

    def _before(self, name: str) -> Node | None:
        book = self._cluster.ledger.books.get(name)
        return book.node if book else None


def _log_problems(node: Node) -> None:
    # While an agent starts, its kubelet offers no units for a moment; metrics and inspect tell if it lasts.
    if node.closed and node.closed != NO_UNITS:
        log.warning("node_closed", node=node.name, reason=node.closed)
    if node.placement is not None and node.placement not in POLICIES:
        log.warning(
            "placement_unknown", node=node.name, label=node.placement, known=list(POLICIES), used=DEFAULT
        )


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
