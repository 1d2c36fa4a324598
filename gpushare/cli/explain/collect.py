"""Explains a pod from what this account may read.

With the rights of a viewer these are all nodes and pods and the unhealthy GPUs. With the rights of one
namespace it is the answer of the usage API, and without that API the events of the pod.
"""

import asyncio
from dataclasses import replace

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import any_pod_of, pod_of
from gpushare.errors import ApiError, ConfigError
from gpushare.overview.explain.answer import Answer, PodFacts, PodState, answer
from gpushare.overview.explain.uncreated import uncreated
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
from gpushare.overview.pod_events import last_refusal
from gpushare.overview.surroundings import collect_surroundings
from gpushare.overview.usage_api import explanation_of, if_served, way_to_usage
from gpushare.scheduling.snapshot import books_of


async def explained(client: KubeClient, name: str, namespace: str | None) -> Answer:
    """The answer about a pod. Raises ConfigError if there is no such pod, or several; ApiError."""
    details = await _named(client, name, namespace)
    facts = PodFacts(any_pod_of(details), details)
    if not facts.pod.managed or facts.pod.gated:
        return answer(facts)
    facts = await _with_cluster(client, facts)
    return answer(facts) if facts.books is not None else await _in_namespace(client, facts)


async def _in_namespace(client: KubeClient, facts: PodFacts) -> Answer:
    """The answer with the rights of the pod's namespace."""
    settled = answer(replace(facts, notes=()))
    if settled.state not in (PodState.UNKNOWN, PodState.BOUND):
        return settled  # nodes and other pods do not matter
    namespace = facts.pod.namespace
    served = await if_served(explanation_of(client, namespace, facts.pod.name))
    if not isinstance(served, ApiError):
        return served
    refusal = await if_allowed(last_refusal(client, namespace, facts.pod.uid))
    notes = (*facts.notes, way_to_usage(namespace))
    if isinstance(refusal, ApiError):
        return answer(replace(facts, notes=(*notes, f"you may not list events: {refusal}")))
    return answer(replace(facts, refusal=refusal, notes=notes))


async def _named(client: KubeClient, name: str, namespace: str | None) -> ClusterPod:
    raws = await named_pods(client, name, namespace)
    found = decoded(raws, ClusterPod, pods_path(namespace))
    if len(found) == 1:
        return found[0]
    if not found:
        reason = await uncreated(client, name, namespace)
        raise ConfigError(f"there is no pod {name} in {where(namespace)}{reason and f'; {reason}'}")
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
    if isinstance(raw_nodes, ApiError) or isinstance(raw_pods, ApiError):
        denied = {"nodes": raw_nodes, "pods of all namespaces": raw_pods}
        lists = [name for name, found in denied.items() if isinstance(found, ApiError)]
        return replace(facts, books=None, notes=(f"you may not list {' and '.join(lists)}",))
    nodes = {each.name: each for each in decoded(raw_nodes, ClusterNode, NODES)}
    running = decoded(raw_pods, ClusterPod, PODS)
    around = await collect_surroundings(client, facts.details, running, notes)
    pods = [pod for each in running if (pod := pod_of(each)) is not None]
    books = books_of([node_of(each, cgpu_pods) for each in nodes.values()], pods, unhealthy)
    return replace(facts, books=books, nodes=nodes, notes=tuple(notes), around=around)
