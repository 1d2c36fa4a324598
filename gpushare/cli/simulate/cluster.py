"""The workload of a cluster, as its nodes and pods are now. Pure.

Simulated are the nodes that share GPUs and take pods, first empty; and the pods that request units, also
those that wait. A pod without units takes part if it runs on one of these nodes. What the extender does not
place stays where it is, and takes CPU and memory there: the pods of DaemonSets, of the kubelet, and with
whole GPUs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from gpushare.adapters.kube.wire import pod_of
from gpushare.errors import ConfigError
from gpushare.model.demand import Demand
from gpushare.model.objects import Node
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.requests import CPU, MEMORY, amount_of, requests_of
from gpushare.scheduling.snapshot import books_of
from gpushare.simulation.workload import GPU, NodeSpec, Shape, Workload

_MIB: Final = 2**20
_STAYING: Final = ("DaemonSet", "Node")
"""Kinds of controllers whose pods belong to a node."""
_NO_MODEL: Final = "unknown"


@dataclass(frozen=True, slots=True)
class SharedNode:
    """A node that takes pods: what pods can get there, and the units of each of its GPUs."""

    details: ClusterNode
    spec: NodeSpec
    units: int


def workload_of(
    nodes: Mapping[str, ClusterNode],
    seen: Iterable[Node],
    unhealthy: Mapping[str, frozenset[int]],
    pods: Sequence[ClusterPod],
    notes: list[str],
) -> Workload:
    """The workload. ``seen`` are the nodes as the extender sees them; what is left out is added to ``notes``.

    Raises ConfigError if there is nothing to simulate.
    """
    shared = dict(_shared_nodes(nodes, seen, unhealthy, notes))
    if not shared:
        raise ConfigError("no node of this cluster shares GPUs and takes pods; --nodes and --pods read files")
    largest = max(each.units for each in shared.values())
    movable, staying = _parted(pods, shared)
    shapes = tuple(_shapes(movable, shared.values(), largest, notes))
    if not any(shape.units for shape in shapes):
        raise ConfigError("no pod of this cluster requests GPU units; --nodes and --pods read files")
    return Workload(tuple(_specs(shared, staying, largest)), shapes)


def _shared_nodes(
    nodes: Mapping[str, ClusterNode],
    seen: Iterable[Node],
    unhealthy: Mapping[str, frozenset[int]],
    notes: list[str],
) -> Iterator[tuple[str, SharedNode]]:
    for name, book in books_of(seen, (), unhealthy).items():
        node = book.node
        if node is None or not node.cards:
            continue
        if why := node.closed or node.away:
            notes.append(f"node {name} is left out, because it takes no pods: {why}")
        elif usages := [each for each in book.usages if each.schedulable]:
            # GPUs of different sizes on one node are rare, and count as the smallest.
            units = min(each.total.mem for each in usages)
            model = " and ".join(sorted({each.card.model or _NO_MODEL for each in usages}))
            yield name, SharedNode(nodes[name], _spec(nodes[name], len(usages), model), units)


def _spec(node: ClusterNode, gpus: int, model: str) -> NodeSpec:
    cpu = amount_of(CPU, node.offers.get(CPU, 0))
    return NodeSpec(node.name, cpu, node.allocatable(MEMORY) // _MIB, gpus, model)


def _parted(
    pods: Iterable[ClusterPod], shared: Mapping[str, SharedNode]
) -> tuple[list[ClusterPod], list[ClusterPod]]:
    """The pods that are simulated, and those that stay on their node."""
    movable: list[ClusterPod] = []
    staying: list[ClusterPod] = []
    for pod in pods:
        leaves = pod.metadata.deletion_timestamp or pod.status.phase in ("Succeeded", "Failed")
        if leaves or pod.spec.scheduling_gates:
            continue
        if _demand(pod):
            movable.append(pod)
        elif pod.spec.node_name in shared:
            (staying if pod.owner.kind in _STAYING or pod.whole_gpus else movable).append(pod)
    return movable, staying


def _demand(pod: ClusterPod) -> Demand | None:
    """What it requests of GPUs; None for nothing, and for a request that the extender refuses."""
    found = pod_of(pod)
    demand = found.demand if found else None
    return demand if isinstance(demand, Demand) and not demand.empty else None


def _shapes(
    pods: Iterable[ClusterPod], nodes: Iterable[SharedNode], largest: int, notes: list[str]
) -> Iterator[Shape]:
    """The requests of the pods that a node could run if it were empty."""
    left: list[str] = []
    models_of = _Models(nodes)
    for pod in pods:
        models, shape = models_of(pod), _shape(pod, largest)
        if models and shape.milli <= GPU:
            yield replace(shape, models=frozenset() if models == models_of.all else models)
        else:
            left.append(f"{pod.metadata.namespace}/{pod.metadata.name}")
    if left:
        notes.append(f"pods left out because no simulated node could run them: {len(left)}, first {left[0]}")


class _Models:
    """The models of the nodes that the selector, affinity and tolerations of a pod admit."""

    def __init__(self, nodes: Iterable[SharedNode]) -> None:
        self._nodes = tuple(nodes)
        self.all = frozenset(each.spec.model for each in self._nodes)
        self._found: dict[bytes, frozenset[str]] = {}

    def __call__(self, pod: ClusterPod) -> frozenset[str]:
        """Pods of a workload share their answer."""
        key = msgspec.json.encode((pod.spec.node_selector, pod.spec.affinity, pod.spec.tolerations))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = frozenset(
                each.spec.model
                for each in self._nodes
                if pod.selects(each.details) and not pod.untolerated(each.details)
            )
        return found


def _shape(pod: ClusterPod, largest: int) -> Shape:
    amounts, demand = dict(requests_of(pod.spec)), _demand(pod)
    return Shape(
        amounts.get(CPU, 0),
        -(-amounts.get(MEMORY, 0) // _MIB),
        demand.cards if demand else 0,
        max(1, demand.per_card.mem * GPU // largest) if demand else 0,
    )


def _specs(
    shared: Mapping[str, SharedNode], staying: Iterable[ClusterPod], largest: int
) -> Iterator[NodeSpec]:
    """The nodes without what the pods that stay take of them."""
    specs = {name: replace(each.spec, milli=each.units * GPU // largest) for name, each in shared.items()}
    for pod in staying:
        amounts, spec = dict(requests_of(pod.spec)), specs[pod.spec.node_name or ""]
        specs[spec.name] = replace(
            spec,
            cpu=max(0, spec.cpu - amounts.get(CPU, 0)),
            memory=max(0, spec.memory - -(-amounts.get(MEMORY, 0) // _MIB)),
        )
    return iter(specs.values())
