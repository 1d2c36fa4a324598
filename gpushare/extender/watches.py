"""The watches that keep the cluster in step with the API server."""

import asyncio
import gc
from collections.abc import Callable
from typing import Final

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.extender_resources import BUDGETS, NODES, PODS, UNHEALTHY
from gpushare.adapters.kube.watch import Follower
from gpushare.extender.api import ExtenderApi
from gpushare.extender.cluster import ClusterState
from gpushare.extender.events import Explainer
from gpushare.extender.handlers import BudgetHandler, ConfigMapHandler, NodeHandler, PodHandler, SyncStatus
from gpushare.extender.seal_key import follow_key, load_sealer
from gpushare.model.disruption import DisruptionBudget
from gpushare.model.objects import Node, Pod
from gpushare.runtime.events import EventRecorder

_GC_THRESHOLDS: Final = (20_000, 100, 50)
"""20,000 young objects are examined in 10 ms."""


class ExtenderWatches:
    """Follows pods and nodes, and what the extender can work without: unhealthy GPUs and budgets.

    ``leads`` returns whether this replica explains why pods wait; ``cgpu_pods`` is the maximum of pods on a
    GPU in mode ``cgpu``, 0 for any number.
    """

    def __init__(
        self,
        client: KubeClient,
        api: ExtenderApi,
        cluster: ClusterState,
        recorder: EventRecorder,
        status: SyncStatus,
        *,
        leads: Callable[[], bool],
        cgpu_pods: int,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._status = status
        self.explainer = Explainer(cluster, recorder)
        turn = self._after_slice
        self._pods: Follower[Pod] = Follower(
            client,
            PODS,
            PodHandler(cluster, self.explainer, status, leads),
            read_elsewhere=cluster.known_pods,
            ends_if_restored=True,
            turn=turn,
        )
        self._nodes: Follower[Node] = Follower(
            client, NODES, NodeHandler(cluster, status, cgpu_pods), ends_if_restored=True, turn=turn
        )
        self._unhealthy: Follower[str] = Follower(
            client, UNHEALTHY, ConfigMapHandler(cluster, recorder, status), turn=turn
        )
        self._budgets: Follower[DisruptionBudget] = Follower(
            client, BUDGETS, BudgetHandler(cluster, status), turn=turn
        )

    @property
    def lost_s(self) -> float:
        """Return the seconds since a required watch was lost; 0 while both work."""
        return max(self._pods.lost_s, self._nodes.lost_s)

    async def run(self) -> None:
        """Follow until cancelled."""
        # Modules and their constants live as long as the process.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
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
        """Exclude listed objects from garbage collection, which takes half a second with 45,000 pods.

        They live long, and have no reference cycles. For later objects rare collections suffice.
        """
        gc.freeze()
        await self._cluster.slices.turn()
