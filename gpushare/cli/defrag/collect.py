"""What a plan is made from: nodes, pods, disruption budgets, and volumes of the pods that wait."""

import asyncio
from collections.abc import Iterable

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.extender_resources import BUDGETS, WireBudget, budget_of
from gpushare.adapters.kube.wire import pod_of
from gpushare.cli.defrag.plan import ClusterFacts, Known
from gpushare.overview.ledger_inputs import collect_cgpu_pods, collect_unhealthy, node_of
from gpushare.overview.lists import NODES, PODS, RUNNING, decoded, listed
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.occupancy import load_of
from gpushare.overview.storage import Storage, collect_storage
from gpushare.scheduling.snapshot import books_of


async def collect(client: KubeClient, notes: list[str]) -> ClusterFacts:
    """The facts of the cluster. Raises ApiError, also without the right to list them: a plan needs all."""
    # First alone: of several missing rights, the same one is always named.
    raw_nodes = await listed(client, NODES)
    raw_pods, raw_budgets, unhealthy, cgpu_pods = await asyncio.gather(
        listed(client, PODS, {"fieldSelector": RUNNING}),
        listed(client, BUDGETS.path),
        collect_unhealthy(client, notes),
        collect_cgpu_pods(client),
    )
    nodes = {each.name: each for each in decoded(raw_nodes, ClusterNode, NODES)}
    details = decoded(raw_pods, ClusterPod, PODS)
    pods = {pod.uid: Known(pod, each) for each in details if (pod := pod_of(each))}
    budgets = decoded(raw_budgets, WireBudget, BUDGETS.path)
    return ClusterFacts(
        books=books_of(
            [node_of(each, cgpu_pods) for each in nodes.values()],
            [each.pod for each in pods.values()],
            unhealthy,
        ),
        nodes=nodes,
        pods=pods,
        others=tuple(load for each in details if each.metadata.uid not in pods and (load := load_of(each))),
        budgets=tuple(budget_of(each)[1] for each in budgets),
        storage=await _storage(client, pods.values(), notes),
    )


async def _storage(client: KubeClient, pods: Iterable[Known], notes: list[str]) -> dict[str, Storage | None]:
    """The storage of the waiting pods with claims."""
    waiting = [each for each in pods if each.pod.is_considered and each.details.claims]
    return {each.pod.uid: await collect_storage(client, each.details, notes) for each in waiting}
