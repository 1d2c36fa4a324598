"""Reads what explains a pod from the API server: the pod, all nodes and pods, and unhealthy GPUs."""

import asyncio
from dataclasses import replace

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import WirePod, any_pod_of, pod_of
from gpushare.errors import ApiError, ConfigError
from gpushare.overview.explain.answer import PodFacts
from gpushare.overview.ledger_inputs import collect_cgpu_pods, collect_unhealthy, node_of
from gpushare.overview.lists import (
    NODES,
    PODS,
    RUNNING,
    decoded,
    if_allowed,
    listed,
    named_pods,
    pods_path,
    where,
)
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.scheduling.snapshot import books_of


async def collect(client: KubeClient, name: str, namespace: str | None) -> PodFacts:
    """The facts about a pod. Raises ConfigError if there is no such pod, or several; ApiError."""
    details = await _named(client, name, namespace)
    facts = PodFacts(any_pod_of(details), details)
    return await _with_cluster(client, facts) if facts.pod.managed and not facts.pod.gated else facts


async def _named(client: KubeClient, name: str, namespace: str | None) -> ClusterPod:
    raws = await named_pods(client, name, namespace)
    found = decoded(raws, ClusterPod, pods_path(namespace))
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError(f"there is no pod {name} in {where(namespace)}")
    names = sorted(each.metadata.namespace for each in found)
    raise ConfigError(f"there are pods {name} in the namespaces {', '.join(names)}; choose one with -n")


async def _with_cluster(client: KubeClient, facts: PodFacts) -> PodFacts:
    notes: list[str] = []
    raw_nodes, raw_pods, unhealthy, cgpu_pods = await asyncio.gather(
        if_allowed(listed(client, NODES)),
        if_allowed(listed(client, PODS, {"fieldSelector": RUNNING})),
        collect_unhealthy(client, notes),
        collect_cgpu_pods(client),
    )
    if isinstance(raw_nodes, ApiError):
        notes.append(f"this account may not list nodes: {raw_nodes}")
    if isinstance(raw_pods, ApiError):
        notes.append(f"this account may not list pods of all namespaces: {raw_pods}")
    if isinstance(raw_nodes, ApiError) or isinstance(raw_pods, ApiError):
        return replace(facts, books=None, notes=tuple(notes))
    nodes = {each.name: each for each in decoded(raw_nodes, ClusterNode, NODES)}
    pods = [pod for each in decoded(raw_pods, WirePod, PODS) if (pod := pod_of(each)) is not None]
    books = books_of([node_of(each, cgpu_pods) for each in nodes.values()], pods, unhealthy)
    return replace(facts, books=books, nodes=nodes, notes=tuple(notes))
