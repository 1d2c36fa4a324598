"""The one writer to the API server: it makes the API show what the agent wants it to show.

The agent says what should be there, as often as it likes, and never waits. Here it is compared with
what is there, and what differs is written: one write at a time, the list of unhealthy cards first,
then the node, and pods only once the node agrees. ``gpushare.io/assigned`` so stands before any pod is
corrected, and no card looks free half-way. What fails is tried again until it succeeds or is wanted no
more; nothing is lost while the API server is away.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import structlog

from gpushare.deviceplugin.api.backoff import Backoff, BackoffPolicy
from gpushare.deviceplugin.api.events import EventRecorder
from gpushare.deviceplugin.core.node_patch import DesiredNode, applied, patch, without_labels
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ApiError
from gpushare.model.objects import Pod
from gpushare.model.own_node import OwnNode
from gpushare.ports import Event, NodeApi

log = structlog.get_logger()

PodPatches = Mapping[str, tuple[Pod, Mapping[str, str | None]]]

_NODE: Final = "node"
_NODE_AGAIN: Final = "node again"
_LABELS: Final = "node labels"
_UNHEALTHY: Final = "unhealthy"
_STUCK_S: Final = 60.0
_WITHOUT: Final = {
    "configmaps": "unhealthy cards are told in the node's annotation only",
    "nodes": "the node does not tell its cards",
    "pods": "annotations of pods are not corrected",
}
"""What it means that the right to a resource is missing."""
_LABELS_REFUSED: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)


@dataclass(frozen=True, slots=True)
class _Write:
    """One thing that differs. ``right`` is the resource, for metrics; ``content`` is what to write.

    It is not ``ready`` while something else must come first.
    """

    key: str
    right: str
    content: object
    send: Callable[[], Awaitable[None]]
    ready: bool = True


class ApiWriter:
    """Desired state in, writes out. All calls come from one event loop."""

    def __init__(
        self, api: NodeApi, metrics: PluginMetrics, watchdog: Watchdog, pace: BackoffPolicy | None = None
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._watchdog = watchdog
        self._patience = Backoff(pace or BackoffPolicy())
        self._notes = EventRecorder(api, metrics, pace or BackoffPolicy())
        self._shown: OwnNode | None = None
        self._wanted: DesiredNode | None = None
        self._pods: PodPatches = {}
        self._unhealthy: str | None = None
        self._written: dict[str, object] = {}
        self._told: dict[str, str] = {}
        self._changed = asyncio.Event()

    def observe_node(self, facts: OwnNode) -> None:
        """What the API shows of the node now; what was lost is written again."""
        self._shown = facts
        self._changed.set()

    def set_node(self, wanted: DesiredNode) -> None:
        """What the node should show."""
        self._wanted = wanted
        self._changed.set()

    def set_pods(self, wishes: PodPatches) -> None:
        """What pods should show, by UID. A pod that is not named is forgotten."""
        self._pods = wishes
        for uid in (self._written.keys() | self._told.keys()) - {*wishes, _NODE, _LABELS, _UNHEALTHY}:
            self._written.pop(uid, None)
            self._told.pop(uid, None)
            self._patience.succeeded(uid)
        self._changed.set()

    def set_unhealthy(self, indices: str) -> None:
        """What the ConfigMap of unhealthy cards should say."""
        self._unhealthy = indices
        self._changed.set()

    def tell(self, note: Event) -> None:
        """Queue an event."""
        self._notes.write(note)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._notes.run())
            tasks.create_task(self._publish())

    async def _publish(self) -> None:
        while True:
            self._changed.clear()
            differing = list(self._differing())
            self._metrics.unpublished.set(len(differing))
            ready = [write for write in differing if write.ready]
            soonest = min(ready, key=self._wait_s, default=None)
            wait_s = self._wait_s(soonest) if soonest else None
            if soonest is None or wait_s:
                await self._change(
                    min((s for s in (wait_s, self._patience.wait_s(_LABELS)) if s), default=None)
                )
            else:
                with self._watchdog.work("publisher", _STUCK_S):
                    await self._carry_out(soonest)

    async def _change(self, timeout_s: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()

    def _differing(self) -> Iterator[_Write]:
        """Everything that the API does not show yet, in the order in which it is written.

        The ConfigMap comes before the node: a change of the node is what makes the scheduler look
        again, and the extender must not think then that a card is still closed.
        """
        if self._unhealthy is not None and self._written.get(_UNHEALTHY) != self._unhealthy:
            send = partial(self._send_unhealthy, self._unhealthy)
            yield _Write(_UNHEALTHY, "configmaps", self._unhealthy, send)
        node = self._node_write()
        if node:
            yield node
        node_agrees = self._wanted is not None and node is None
        for uid, (pod, annotations) in self._pods.items():
            if self._written.get(uid) != annotations:
                yield _Write(uid, "pods", annotations, partial(self._send_pod, pod, annotations), node_agrees)

    def _node_write(self) -> _Write | None:
        """What the node lacks; nobody knows before its object has been seen."""
        if self._wanted is None:
            return None
        with_labels = not self._patience.wait_s(_LABELS)
        merge = patch(self._shown, self._wanted, labels=with_labels) if self._shown else {}
        if merge is None:
            return None
        return _Write(_NODE, "nodes", merge, partial(self._send_node, merge), ready=self._shown is not None)

    async def _carry_out(self, write: _Write) -> None:
        try:
            await write.send()
        except ApiError as error:
            self._metrics.writes.labels(write.right, "error").inc()
            self._tell_failure(write, error, self._patience.failed(write.key, error))
        else:
            self._metrics.writes.labels(write.right, "ok").inc()
            self._note_success(write)

    def _wait_s(self, write: _Write) -> float:
        """Seconds until it may be written.

        The same once more is not hurried: an echo of an older state may be late, or somebody undoes what
        we write, who is not to be raced with.
        """
        again_s = self._patience.wait_s(_NODE_AGAIN) if self._is_again(write) else 0
        return max(self._patience.wait_s(write.key), again_s)

    def _is_again(self, write: _Write) -> bool:
        return self._written.get(write.key) == write.content

    def _note_success(self, write: _Write) -> None:
        self._metrics.reduced.labels(write.right).set(0)
        if self._told.pop(write.key, None):
            log.info("published_after_all", what=write.right)
        self._patience.succeeded(write.key)
        if write.key == _NODE:
            if not self._is_again(write):
                self._patience.succeeded(_NODE_AGAIN)
            self._patience.failed(_NODE_AGAIN)
        self._written[write.key] = write.content

    def _tell_failure(self, write: _Write, error: ApiError, retry_s: float) -> None:
        right, reason, forbidden = write.right, str(error), error.status == HTTPStatus.FORBIDDEN
        if forbidden:
            self._metrics.reduced.labels(right).set(1)
        if self._told.get(write.key) == reason:
            return
        self._told[write.key] = reason
        if forbidden:
            log.warning("reduced_mode", right=right, effect=_WITHOUT[right], reason=reason)
        else:
            log.warning("not_published", what=right, status=error.status, reason=reason, retry_s=retry_s)

    async def _send_unhealthy(self, indices: str) -> None:
        """One write; where it may not be made, an empty list needs none unless we wrote another one."""
        try:
            await self._api.write_unhealthy(indices)
        except ApiError as error:
            if indices or self._written.get(_UNHEALTHY) or error.status != HTTPStatus.FORBIDDEN:
                raise

    async def _send_node(self, merge: Mapping[str, Any]) -> None:
        """One write; without the labels for a while where they are refused."""
        sent, labels = merge, "labels" in merge.get("metadata", {})
        try:
            await self._api.patch_node(merge)
        except ApiError as error:
            if not labels or error.status not in _LABELS_REFUSED:
                raise
            sent = await self._send_without_labels(merge, error)
        else:
            if labels:
                self._take_labels()
        if self._shown:
            self._shown = applied(self._shown, sent)

    async def _send_without_labels(self, merge: Mapping[str, Any], error: ApiError) -> Mapping[str, Any]:
        bare = without_labels(merge)
        if bare:
            await self._api.patch_node(bare)
        self._patience.failed(_LABELS, error)
        self._metrics.reduced.labels(_LABELS).set(1)
        if _LABELS not in self._told:
            effect = "cards are not told in labels"
            log.warning("reduced_mode", right=_LABELS, effect=effect, reason=str(error))
        self._told[_LABELS] = str(error)
        return bare

    def _take_labels(self) -> None:
        """The API takes labels, be it for the first time."""
        self._patience.succeeded(_LABELS)
        self._metrics.reduced.labels(_LABELS).set(0)
        if self._told.pop(_LABELS, None):
            log.info("reduced_mode_over", right=_LABELS)

    async def _send_pod(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        """One write; a pod that is gone, or has a successor of its name, needs none."""
        try:
            await self._api.patch_pod(pod, annotations)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            log.info("pod_gone_before_it_was_patched", pod=pod.full_name, reason=str(error))
