"""Pods and nodes as the metrics API watches them: a row of the directory, and what the usage API needs.

A pod or node that cannot be read in full is a row of the directory only, so that one of them does not end the
watch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw

from gpushare.adapters.kube import metrics_api
from gpushare.adapters.kube.metrics_api import DirectoryEntry
from gpushare.adapters.kube.watch import Resource
from gpushare.model.demand import Demand, Malformed
from gpushare.overview.gpu_pods import read_cluster_pod, read_node
from gpushare.overview.objects import ClusterNode
from gpushare.overview.occupancy import PodLoad, load_of
from gpushare.overview.pod_usage import UsagePod, usage_pod_of

_entry_of: Final = msgspec.json.Decoder(metrics_api.PODS.kind).decode


@dataclass(frozen=True, slots=True)
class PodEntry(DirectoryEntry):
    """A pod; ``usage`` is None if it requests no units, ``load`` if it is not bound."""

    usage: UsagePod | None = None
    load: PodLoad | None = None


@dataclass(frozen=True, slots=True)
class NodeEntry(DirectoryEntry):
    """A node; ``details`` is None if they cannot be read."""

    details: ClusterNode | None = None


def _pod(raw: Raw) -> tuple[str, DirectoryEntry] | None:
    found = _entry(raw)
    if found is None:
        return None
    key, row = found
    pod = read_cluster_pod(raw)
    if isinstance(pod, Malformed):
        return found
    usage, load = usage_pod_of(pod), load_of(pod)
    # Finished pods without units need no more than the row.
    return (key, _pod_entry(row, usage, load)) if usage or load else found


def _pod_entry(row: DirectoryEntry, usage: UsagePod | None, load: PodLoad | None) -> PodEntry:
    if usage is None:
        return PodEntry(row.namespace, row.name, row.labels, row.node, row.address, row.running, load=load)
    labels = _labels(usage.core.labels)
    shared = replace(usage, core=replace(usage.core, demand=_demand(usage.core.demand)))
    return PodEntry(row.namespace, row.name, labels, row.node, row.address, row.running, shared, load)


@lru_cache(maxsize=10_000)
def _labels(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return one object for equal labels: the pods of a controller have the same."""
    return dict(pairs)


@lru_cache(maxsize=10_000)
def _demand(demand: Demand | Malformed) -> Demand | Malformed:
    """Return one object for equal demands: a cluster has few different ones."""
    return demand


def _node(raw: Raw) -> tuple[str, DirectoryEntry] | None:
    found = _entry(raw)
    if found is None:
        return None
    key, row = found
    node = read_node(raw)
    details = None if isinstance(node, Malformed) else node
    return key, NodeEntry(row.namespace, row.name, row.labels, details=details)


def _entry(raw: Raw) -> tuple[str, DirectoryEntry] | None:
    try:
        return metrics_api.PODS.read(_entry_of(raw))
    except msgspec.DecodeError:
        return None


PODS: Final[Resource[DirectoryEntry]] = Resource("pods", metrics_api.PODS.path, Raw, _pod)
NODES: Final[Resource[DirectoryEntry]] = Resource("nodes", metrics_api.NODES.path, Raw, _node)
