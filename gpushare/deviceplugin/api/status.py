"""Projects the node state to the API server, pod and node events, and gauges. Decides nothing."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import structlog

from gpushare.contract import (
    EVENT_ASSIGNED,
    EVENT_CARD_FREE,
    EVENT_CARD_IN_USE,
    EVENT_NOT_SERVING,
    EVENT_REFUSED,
    RESOURCE_MEM,
)
from gpushare.deviceplugin.api.writer import ApiWriter
from gpushare.deviceplugin.core.allocations import Allocation, Key, allocated_shares
from gpushare.deviceplugin.core.conflicts import late_rejection
from gpushare.deviceplugin.core.node_patch import desired_node
from gpushare.deviceplugin.core.pod_patches import assigned_text, pod_patches
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.node.state import NodeState
from gpushare.model.local_node import GpuPod
from gpushare.ports import KubeEvent, node_event, pod_event
from gpushare.runtime.times import now_text

log = structlog.get_logger()

_BATCH_S: Final = 0.05
"""The first change is projected at once; those until then are projected together."""
_OPENED_S: Final = 3.0
"""So long after a GPU has begun to take pods, the node changes again.

kube-scheduler looks at waiting pods again as soon as it sees the first change. The extender may see it later
and reject them once more, and without another change they would wait for up to five minutes.
"""


class StatusPublisher:
    """Projects one node state; ``record_event`` receives events."""

    def __init__(
        self,
        node_state: NodeState,
        writer: ApiWriter,
        metrics: PluginMetrics,
        *,
        record_event: Callable[[KubeEvent], None],
        opened_s: float = _OPENED_S,
    ) -> None:
        self._node_state = node_state
        self._writer = writer
        self._metrics = metrics
        self._record_event = record_event
        self._confirmed: Mapping[Key, Allocation] = {each.key: each for each in _confirmed(node_state)}
        self._notices: tuple[str, ...] = ()
        self._in_use: frozenset[int] = frozenset()
        self._closed: str | None = None
        self._opened_s = opened_s
        self._open: frozenset[int] = frozenset()
        self._opened_due: float | None = None
        self._opened: str | None = None

    async def run(self) -> None:
        """Project every change until cancelled; changes within a moment are projected together."""
        projected = -1
        while True:
            if projected == self._node_state.generation:
                await self._change()
            projected = self._node_state.generation
            self.publish()
            await asyncio.sleep(_BATCH_S)

    async def _change(self) -> None:
        """Return at the next change, or when the node is to change again after it has opened."""
        due = self._opened_due
        with suppress(TimeoutError):
            async with asyncio.timeout(None if due is None else max(0.0, due - time.monotonic())):
                await self._node_state.changed()

    def publish(self) -> None:
        """Project the current state."""
        self._note_open_gpus()
        self._write()
        self._report_closed()
        self._report_whole_gpus()
        before, self._confirmed = self._confirmed, {each.key: each for each in _confirmed(self._node_state)}
        for key, allocation in self._confirmed.items():
            gpu_pod = self._node_state.allocations.gpu_pods.get(allocation.uid)
            if gpu_pod and not (key in before and before[key].cards == allocation.cards):
                self._report_move(gpu_pod, allocation)
                self._report_confusion(gpu_pod, allocation)
                self._report_bypass(gpu_pod, allocation)

    def _write(self) -> None:
        state = self._node_state
        allocations, shared_gpus = state.allocations, state.advertised
        assigned = assigned_text(allocations)
        desired = desired_node(
            shared_gpus, assigned, state.closed_reason, self._opened, device_list=state.device_list.text
        )
        self._writer.set_node(desired)
        self._writer.set_pods(pod_patches(allocations))
        if shared_gpus:
            self._writer.set_unhealthy(shared_gpus.unschedulable)
        running = allocations.by_pod.keys() & allocations.gpu_pods.keys()
        self._metrics.pods.labels("running").set(len(running))
        self._metrics.pods.labels("leaving").set(len(allocations.by_pod) - len(running))

    def _note_open_gpus(self) -> None:
        """Note when the node began to take pods on more of its GPUs, once that change is some seconds old."""
        advertised, before = self._node_state.advertised, self._open
        cards = advertised.cards if advertised and not self._node_state.closed_reason else ()
        self._open = frozenset(card.index for card in cards if card.healthy and not card.closed)
        now = time.monotonic()
        if self._open - before:
            self._opened_due = now + self._opened_s
        elif self._opened_due is not None and now >= self._opened_due:
            self._opened_due = None
            self._opened = now_text()

    def _report_closed(self) -> None:
        """Report why the node takes no new pods, once for each reason."""
        before, self._closed = self._closed, self._node_state.closed_reason
        self._metrics.closed.set(self._closed is not None)
        if self._closed and self._closed != before and self._node_state.node_read:
            log.warning("not_serving", reason=self._closed)
            node = self._node_state.allocations.node
            self._record_event(node_event(node, EVENT_NOT_SERVING, self._closed))

    def _report_whole_gpus(self) -> None:
        """Report GPUs that another plugin has allocated as whole GPUs, and GPUs that are free again."""
        before, self._notices = self._notices, self._node_state.notices
        for text in self._notices:
            if text not in before:
                self._report_gpu(EVENT_CARD_IN_USE, text)
        advertised = self._node_state.advertised
        cards = advertised.cards if advertised else ()
        was, self._in_use = self._in_use, frozenset(card.index for card in cards if card.whole_gpu_pods)
        for card in cards:
            if card.index in was - self._in_use:
                self._report_gpu(EVENT_CARD_FREE, f"GPU {card.index} is no longer in use as a whole GPU")
        self._metrics.cards.labels("whole").set(len(self._in_use))

    def _report_gpu(self, reason: str, text: str) -> None:
        log.warning("card_in_use" if reason == EVENT_CARD_IN_USE else "card_free", text=text)
        self._record_event(node_event(self._node_state.allocations.node, reason, text))

    def _report_move(self, gpu_pod: GpuPod, allocation: Allocation) -> None:
        """Report a pod that got other GPUs than the extender had reserved."""
        shares = allocated_shares(self._node_state.allocations, allocation.uid)
        if not allocation.diverged or not shares or shares == gpu_pod.claim:
            return
        cards = ", ".join(f"{share.mem} on GPU {index}" for index, share in shares)
        reserved = ", ".join(f"GPU {index}" for index, _ in gpu_pod.claim or ()) or "no GPU"
        self._metrics.corrected.labels("moved" if gpu_pod.claim else "unplaced").inc()
        log.info("pod_corrected", pod=allocation.pod, cards=cards, reserved=reserved)
        text = f"allocated {cards}; its annotations had reserved {reserved}"
        self._record_event(pod_event(gpu_pod.pod, EVENT_ASSIGNED, text))

    def _report_confusion(self, gpu_pod: GpuPod, allocation: Allocation) -> None:
        """Report a container that got the response for a pod with another request."""
        requested = gpu_pod.demand.mem if gpu_pod.demand else 0
        if allocation.total in (0, requested):
            return
        self._metrics.corrected.labels("mistaken").inc()
        text = (
            f"container {allocation.container} was started with {allocation.total} {RESOURCE_MEM} as the "
            f"total of its pod, which requests {requested}, because the kubelet served several pods at the "
            "same time; recreate the pod to correct it"
        )
        log.warning("pod_mistaken", pod=allocation.pod, text=text)
        self._record_event(pod_event(gpu_pod.pod, EVENT_ASSIGNED, text, warning=True))

    def _report_bypass(self, gpu_pod: GpuPod, allocation: Allocation) -> None:
        """Report a container that should have been rejected but got the response for an equal pod."""
        state = self._node_state
        rejection = late_rejection(state.allocations, gpu_pod, allocation, state.device_list)
        if rejection and allocation.at_ns:
            log.warning(
                "allocate_refused",
                resource=RESOURCE_MEM,
                reason=rejection.reason,
                text=rejection.text,
                late=True,
            )
            self._record_event(pod_event(gpu_pod.pod, EVENT_REFUSED, rejection.text, warning=True))


def _confirmed(node_state: NodeState) -> Iterator[Allocation]:
    """The allocations of which the kubelet has confirmed the container."""
    return (each for each in node_state.allocations.by_container.values() if each.confirmed)
