"""Writes the desired state of the agent to the API server.

The agent sets the desired state at any time and never waits. The writer compares it with the actual state
and writes the differences one at a time: the ConfigMap of unhealthy GPUs first, then the node, and pods only
when the node is up to date. So ``gpushare.io/assigned`` is written before any pod is corrected, and no GPU
looks free in between. Startup taints of the node are removed last. Failed writes are retried until they
succeed or are no longer desired, also after an outage of the API server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol

import structlog

from gpushare.deviceplugin.api.backoff import BackoffPolicy, WriteBackoff
from gpushare.deviceplugin.core.node_patch import DesiredNode, applied, patch, without_labels
from gpushare.deviceplugin.core.pod_patches import PodPatches
from gpushare.deviceplugin.core.startup_taints import removed_taints, without_startup_taints
from gpushare.deviceplugin.metrics import PluginEventMetrics, PluginMetrics
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ApiError
from gpushare.model.local_node import LocalNode
from gpushare.model.objects import Pod
from gpushare.ports import KubeEvent
from gpushare.runtime.events import EventRecorder, RecorderSettings
from gpushare.runtime.reasons import Reasons

log = structlog.get_logger()

_NODE: Final = "node"
_NODE_REPEATED: Final = "node again"
_LABELS: Final = "node labels"
_UNHEALTHY: Final = "unhealthy"
_TAINTS: Final = "node taints"
_WATCHDOG_S: Final = 60.0
_EFFECTS: Final = {
    "configmaps": "unhealthy GPUs are published in the node's annotation only",
    "nodes": "the GPUs of the node are not published",
    "pods": "annotations of pods are not corrected",
    _TAINTS: "the node keeps its startup taint: set startupTaint of the node agent",
}
"""Effect of a missing permission, by resource."""
_LABELS_REFUSED: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)


class AgentApi(Protocol):
    """The API server, for the agent of one node. Every method raises ApiError if it does not succeed."""

    async def patch_node(self, patch: Mapping[str, Any]) -> None:
        """Merge into the agent's node: metadata and status, through the status subresource."""

    async def remove_taints(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """Apply a JSON patch to the agent's node; 422 if the node has changed so that it does not apply."""

    async def patch_pod(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        """Merge annotations into a pod; 404 if it is gone, or if its name has another UID now."""

    async def write_unhealthy(self, indices: str) -> None:
        """Write the list of unhealthy GPUs of the node, such as ``0,2``; create it if there is none yet."""

    async def node_names(self) -> tuple[str, ...]:
        """The names of all nodes."""

    async def write_event(self, event: KubeEvent) -> None:
        """Write an event."""


@dataclass(frozen=True, slots=True)
class _Write:
    """A pending write. ``right`` is the resource for metrics, ``content`` the content to write.

    It is not ``ready`` while another write must come first.
    """

    key: str
    right: str
    content: object
    send: Callable[[], Awaitable[None]]
    ready: bool = True


class ApiWriter:
    """Writes desired state to the API server. All calls come from one event loop."""

    def __init__(
        self, api: AgentApi, metrics: PluginMetrics, watchdog: Watchdog, policy: BackoffPolicy | None = None
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._watchdog = watchdog
        self._backoff = WriteBackoff(policy or BackoffPolicy())
        self._events = EventRecorder(api.write_event, PluginEventMetrics(metrics), RecorderSettings())
        self._actual_node: LocalNode | None = None
        self._desired_node: DesiredNode | None = None
        self._pods: PodPatches = {}
        self._unhealthy: str | None = None
        self._written: dict[str, object] = {}
        self._reported = Reasons()
        self._changed = asyncio.Event()

    def observe_node(self, node: LocalNode) -> None:
        """Set the actual state of the node; lost values are written again."""
        self._actual_node = node
        self._changed.set()

    def set_node(self, node: DesiredNode) -> None:
        """Set the desired state of the node."""
        self._desired_node = node
        self._changed.set()

    def set_pods(self, patches: PodPatches) -> None:
        """Set the desired annotations of pods, by UID. Other pods are forgotten."""
        self._pods = patches
        kept = {*patches, _NODE, _LABELS, _UNHEALTHY, _TAINTS}
        for uid in (self._written.keys() | self._reported.things) - kept:
            self._written.pop(uid, None)
            self._reported.end(uid)
            self._backoff.succeeded(uid)
        self._changed.set()

    def set_unhealthy(self, indices: str) -> None:
        """Set the content of the ConfigMap of unhealthy GPUs."""
        self._unhealthy = indices
        self._changed.set()

    def record_event(self, event: KubeEvent) -> None:
        """Queue an event."""
        self._events.record(event)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            tasks.create_task(self._write_pending())

    async def _write_pending(self) -> None:
        while True:
            self._changed.clear()
            pending = list(self._pending())
            self._metrics.unpublished.set(len(pending))
            ready = [write for write in pending if write.ready]
            soonest = min(ready, key=self._wait_s, default=None)
            wait_s = self._wait_s(soonest) if soonest else None
            if soonest is None or wait_s:
                await self._wait_for_change(
                    min((s for s in (wait_s, self._backoff.wait_s(_LABELS)) if s), default=None)
                )
            else:
                with self._watchdog.work("api_writer", _WATCHDOG_S):
                    await self._send(soonest)

    async def _wait_for_change(self, timeout_s: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()

    def _pending(self) -> Iterator[_Write]:
        """All differences between desired and actual state, in writing order.

        The ConfigMap comes before the node: a change of the node makes the scheduler retry pods, and the
        extender must not treat a GPU as unhealthy then that has recovered.
        """
        if self._unhealthy is not None and self._written.get(_UNHEALTHY) != self._unhealthy:
            send = partial(self._send_unhealthy, self._unhealthy)
            yield _Write(_UNHEALTHY, "configmaps", self._unhealthy, send)
        node = self._node_write()
        if node:
            yield node
        node_written = self._desired_node is not None and node is None
        for uid, (pod, annotations) in self._pods.items():
            if self._written.get(uid) != annotations:
                send = partial(self._send_pod, pod, annotations)
                yield _Write(uid, "pods", annotations, send, ready=node_written)
        if taints := removed_taints(self._actual_node):
            send = partial(self._send_taints, taints)
            yield _Write(_TAINTS, _TAINTS, taints, send, ready=node_written)

    def _node_write(self) -> _Write | None:
        """The pending write of the node, None if it is up to date; not ready while its state is unknown."""
        if self._desired_node is None:
            return None
        actual, with_labels = self._actual_node, not self._backoff.wait_s(_LABELS)
        merge = patch(actual, self._desired_node, labels=with_labels) if actual else {}
        if merge is None:
            return None
        return _Write(_NODE, "nodes", merge, partial(self._send_node, merge), ready=actual is not None)

    async def _send(self, write: _Write) -> None:
        try:
            await write.send()
        except ApiError as error:
            self._metrics.writes.labels(write.right, "error").inc()
            retry_s = self._backoff.failed(write.key, error, optional=write.key == _UNHEALTHY)
            self._report_failure(write, error, retry_s)
        else:
            self._metrics.writes.labels(write.right, "ok").inc()
            self._report_success(write)

    def _wait_s(self, write: _Write) -> float:
        """Seconds until the write is allowed.

        Repeating the same node write backs off: the watch may return an older state late, or another client
        may revert the write.
        """
        repeated_s = self._backoff.wait_s(_NODE_REPEATED) if self._is_repeated(write) else 0
        return max(self._backoff.wait_s(write.key), repeated_s)

    def _is_repeated(self, write: _Write) -> bool:
        return self._written.get(write.key) == write.content

    def _report_success(self, write: _Write) -> None:
        self._metrics.degraded.labels(write.right).set(0)
        if self._reported.end(write.key):
            log.info("published_after_failure", what=write.right)
        self._backoff.succeeded(write.key)
        if write.key in (_NODE, _TAINTS):
            if not self._is_repeated(write):
                self._backoff.succeeded(_NODE_REPEATED)
            self._backoff.failed(_NODE_REPEATED)
        self._written[write.key] = write.content

    def _report_failure(self, write: _Write, error: ApiError, retry_s: float) -> None:
        right, reason, forbidden = write.right, str(error), error.status == HTTPStatus.FORBIDDEN
        if forbidden:
            self._metrics.degraded.labels(right).set(1)
        if not self._reported.is_new(reason, write.key):
            return
        if forbidden:
            log.warning("degraded_mode", right=right, effect=_EFFECTS[right], reason=reason)
        else:
            log.warning("not_published", what=right, status=error.status, reason=reason, retry_s=retry_s)

    async def _send_unhealthy(self, indices: str) -> None:
        """Write the ConfigMap. A forbidden write of an empty list is no error if no other was written."""
        try:
            await self._api.write_unhealthy(indices)
        except ApiError as error:
            if indices or self._written.get(_UNHEALTHY) or error.status != HTTPStatus.FORBIDDEN:
                raise

    async def _send_node(self, merge: Mapping[str, Any]) -> None:
        """Patch the node; without its labels for a while after the API server has refused them."""
        sent, labels = merge, "labels" in merge.get("metadata", {})
        try:
            await self._api.patch_node(merge)
        except ApiError as error:
            if not labels or error.status not in _LABELS_REFUSED:
                raise
            sent = await self._send_without_labels(merge, error)
        else:
            if labels:
                self._report_labels_written()
        if self._actual_node:
            self._actual_node = applied(self._actual_node, sent)

    async def _send_without_labels(self, merge: Mapping[str, Any], error: ApiError) -> Mapping[str, Any]:
        unlabelled = without_labels(merge)
        if unlabelled:
            await self._api.patch_node(unlabelled)
        self._backoff.failed(_LABELS, error)
        self._metrics.degraded.labels(_LABELS).set(1)
        if self._reported.is_new(str(error), _LABELS):
            effect = "GPUs are not published in labels"
            log.warning("degraded_mode", right=_LABELS, effect=effect, reason=str(error))
        return unlabelled

    def _report_labels_written(self) -> None:
        self._backoff.succeeded(_LABELS)
        self._metrics.degraded.labels(_LABELS).set(0)
        if self._reported.end(_LABELS):
            log.info("degraded_mode_over", right=_LABELS)

    async def _send_taints(self, operations: Sequence[Mapping[str, Any]]) -> None:
        await self._api.remove_taints(operations)
        if self._actual_node:
            self._actual_node = without_startup_taints(self._actual_node)

    async def _send_pod(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        """Patch the pod. A pod that was deleted, or replaced by another of its name, is no error."""
        try:
            await self._api.patch_pod(pod, annotations)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            log.info("pod_deleted_before_patch", pod=pod.full_name, reason=str(error))
