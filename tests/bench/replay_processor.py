"""The processor time of decisions in one process, which depends little on what else the machine does.

The service of the extender answers filter and prioritize from a ledger, without HTTP, API server and bind.
The time is that of all threads. What is learned meanwhile is a row of its own.
"""

import gc
import json
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

import click
import msgspec

from gpushare.adapters.kube.pod_loads import LoadedPod, observed_pod
from gpushare.adapters.kube.wire import WireNode, core_node
from gpushare.adapters.replay.kernel import KernelEngine
from gpushare.extender.cluster import ClusterState
from gpushare.extender.events import Explainer
from gpushare.extender.freshness import SyncStatus
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.replay import ReplayScores
from gpushare.extender.service import SchedulerService
from gpushare.extender.watches import AllPodsHandler, PodHandler
from gpushare.model.changes import Upserted
from gpushare.model.demand import Demand
from gpushare.model.objects import Pod
from gpushare.scheduling.events import Reserved
from gpushare.scheduling.fitting import PodRequest, Rejection, place
from testbed.control_plane.api import Object
from tests.bench.measuring import ms, quantile

LEARN_EVERY: Final = 25
"""Pods between two looks at those that have arrived."""


class InProcess:
    """The parts of an extender that decide. ``policy`` is binpack or replay."""

    def __init__(self, policy: str, nodes: Iterable[Object], pods: Iterable[Object]) -> None:
        metrics = ExtenderMetrics()
        self._replay = ReplayScores(KernelEngine(), metrics, wait_s=60) if policy == "replay" else None
        self.cluster = ClusterState(self._replay.follow if self._replay else None)
        absent = cast("Any", SimpleNamespace())
        handler = PodHandler(
            self.cluster, Explainer(self.cluster, absent), SyncStatus(metrics), lambda: False
        )
        arrived = self._replay.arrived if self._replay else lambda _: None
        self._handler = AllPodsHandler(self.cluster, handler, arrived)
        self._service = SchedulerService(
            self.cluster,
            binder=absent,
            leadership=absent,
            peers=absent,
            metrics=metrics,
            missing=lambda: None,
            replay=self._replay,
        )
        found = [core_node(msgspec.convert(each, WireNode)) for each in nodes]
        self.cluster.change_nodes([Upserted(each.name, each) for each in found])
        for pod in pods:
            self.show(pod)
        # As the extender does with what it has listed.
        gc.collect()
        gc.freeze()

    def show(self, pod: Object) -> None:
        """The watch delivers a pod."""
        self._handler.changed([Upserted(*observed_pod(msgspec.convert(pod, LoadedPod)))])

    async def answered(self, verb: str, pod: Object, names: Sequence[str]) -> Any:
        """The answer of a verb."""
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode()
        answer = self._service.answer(verb, body)
        return json.loads(answer if isinstance(answer, bytes) else await answer)

    async def learn(self) -> None:
        """Learn from the pods that have arrived."""
        if self._replay:
            await self._replay.learn(self.cluster.ledger)

    def bind(self, uid: str, node: str) -> None:
        """Reserve what the bind would."""
        pod: Pod = self.cluster.pods[uid]
        assert isinstance(pod.demand, Demand)
        shares = place(self.cluster.ledger.books[node], PodRequest(uid, pod.demand, binding=True))
        if not isinstance(shares, Rejection):
            self.cluster.apply(Reserved(pod, pod.demand, node, shares))


class Times:
    """Processor seconds by what they were spent on."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}

    async def of(self, what: str, work: Awaitable[Any]) -> Any:
        """Do the work."""
        began = time.process_time()
        result = await work
        self.spent.setdefault(what, []).append(time.process_time() - began)
        return result


def report(nodes: int, arms: Mapping[str, Times]) -> None:
    """Rows of the table."""
    for arm, times in arms.items():
        for what, seconds in times.spent.items():
            shown = [ms(quantile(seconds, part)) for part in (0.5, 0.9, 0.99)]
            mean = sum(seconds) / len(seconds)
            click.echo(
                f"| {nodes} | {arm} | {what} | {ms(mean)} | {' | '.join(shown)} | {ms(max(seconds))} |"
            )
