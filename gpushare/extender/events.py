"""Events of the extender: the recorder's counters, and why a pending pod fits on no node."""

import time
from functools import partial
from itertools import islice
from typing import Final

from gpushare.contract import EVENT_MALFORMED, EVENT_REFUSED, REASON_NO_CARD
from gpushare.extender.cluster import ClusterState
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.verbs import pod_request_of
from gpushare.model.demand import Malformed
from gpushare.model.objects import Pod
from gpushare.ports import KubeEvent, pod_event
from gpushare.runtime.events import EventRecorder
from gpushare.runtime.times import clock_time
from gpushare.scheduling.advice.inspection import explain_steps
from gpushare.scheduling.advice.rollout import self_wait_steps

_IDLE_PER_WORK: Final = 9.0
"""Explanations take at most a tenth of the time."""

_AT_ONCE: Final = 500
"""How many pods a new leader explains: by default that takes 25 s, in which newer refusals wait."""


class ExtenderEventMetrics:
    """The event recorder's counters in the extender's metrics."""

    def __init__(self, metrics: ExtenderMetrics) -> None:
        self._metrics = metrics

    def written(self) -> None:
        """Written events are not counted."""

    def failed(self) -> None:
        """Attempts that are repeated are not counted."""

    def dropped(self) -> None:
        """Count a dropped event."""
        self._metrics.events_dropped.inc()

    def forbidden(self, *, forbidden: bool) -> None:
        """Set the gauge of the missing right."""
        self._metrics.degraded.labels("events").set(forbidden)


class Explainer:
    """Records events that state, per GPU, why a pod cannot be placed.

    The reason is computed, in slices, when its event is about to be written, so that it describes the current
    ledger.
    """

    def __init__(self, cluster: ClusterState, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._recorder = recorder

    def explain(self, pod: Pod) -> None:
        """Record why a pod that the scheduler could not place fits on no node."""
        if _was_refused(pod):
            self._recorder.record_later(pod.uid, partial(self._explanation, pod.uid))

    def explain_all(self) -> None:
        """Explain pods that were refused before this replica led; at most 500.

        The condition of such a pod may stay the same for hours, so that the watch does not deliver it again.
        """
        for pod in islice(filter(_was_refused, self._cluster.pods.values()), _AT_ONCE):
            self.explain(pod)

    async def _explanation(self, uid: str) -> KubeEvent | None:
        """None if the pod is gone, is placed or deleted, or fits on a node by now."""
        pod = self._waiting(uid)
        if pod is None:
            return None
        if isinstance(pod.demand, Malformed):
            return pod_event(pod, EVENT_MALFORMED, pod.demand.problem, warning=True)
        rejected = REASON_NO_CARD in (pod.unschedulable or "")
        steps = explain_steps(self._cluster.ledger, pod_request_of(pod), rejected=rejected)
        reason = await self._cluster.slices.run(steps, idle_per_work=_IDLE_PER_WORK)
        itself = await self._self_wait(pod) if reason else ""
        text = "; ".join(filter(None, (itself, reason, self._wait_text(pod))))
        return pod_event(pod, EVENT_REFUSED, text, warning=True) if text and self._waiting(uid) else None

    async def _self_wait(self, pod: Pod) -> str:
        """Why the rolling update that made the pod cannot go on; empty if that is not the reason."""
        books = list(self._cluster.ledger.books.values())
        steps = self_wait_steps(books, pod, pod_request_of(pod))
        found = await self._cluster.slices.run(steps, idle_per_work=_IDLE_PER_WORK)
        return found.text if found else ""

    def _wait_text(self, pod: Pod) -> str:
        """Which nodes the pod does not go to for a while; empty if there is none."""
        wait = self._cluster.wait_of(pod)
        if wait is None:
            return ""
        nodes = "any node" if wait.nodes is None else ", ".join(sorted(wait.nodes))
        until = clock_time(time.time() + wait.until_s - time.monotonic())
        return (
            f"goes to {nodes} from {until} on, because other pods of its workload were rejected: {wait.text}"
        )

    def _waiting(self, uid: str) -> Pod | None:
        """The pod, unless it is gone, deleted or placed."""
        pod = self._cluster.pods.get(uid)
        reserved = self._cluster.ledger.reservation(uid) is not None
        return pod if pod and pod.is_considered and not reserved else None


def _was_refused(pod: Pod) -> bool:
    """Whether the scheduler tried to place the pod, and still tries."""
    return pod.unschedulable is not None and pod.is_considered
