"""Pods that request units, with the usage of their containers, as documents of the usage API. Pure.

The numbers are those of ``top`` and ``limits``. What does not belong here: the pods' positions in a ledger
(``gpushare.scheduling``), and why a pod waits (``gpushare.overview.explain``).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import structs

from gpushare.adapters.kube.wire import pod_of
from gpushare.model.cards import Card
from gpushare.model.demand import ContainerDemand, Demand, Malformed
from gpushare.model.objects import Pod
from gpushare.model.usage_documents import ContainerGpu, GpuContainer, GpuPod, UsageMeta, UsageOwner
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample
from gpushare.overview.limits import NO_SERIES, why_not
from gpushare.overview.memory_units import unit_of
from gpushare.overview.node_view import view_of
from gpushare.overview.objects import ClusterNode, ClusterPod, PodOwner
from gpushare.overview.pod_state import state_of
from gpushare.overview.usage import joined

_BYTES: Final[Mapping[str, Metric]] = {
    "allocated_bytes": catalogue.CONTAINER_ALLOCATED,
    "limit_bytes": catalogue.CONTAINER_LIMIT,
    "used_bytes": catalogue.CONTAINER_USED,
    "counted_bytes": catalogue.CONTAINER_COUNTED,
    "uncounted_bytes": catalogue.CONTAINER_UNCOUNTED,
    "peak_bytes": catalogue.CONTAINER_PEAK,
    "refusals": catalogue.CONTAINER_REFUSALS,
    "largest_refused_bytes": catalogue.CONTAINER_REFUSED,
    "needed_bytes": catalogue.CONTAINER_NEEDED,
}
"""The whole numbers of a container on a GPU, by field of ``ContainerGpu``."""
_NUMBERS: Final = (*_BYTES.values(), catalogue.CONTAINER_UTILIZATION)
_MIB: Final = 2**20
_LABELS: Final = ("pod", "container", "card", "uuid")
SERIES: Final = frozenset(map(str, (*_NUMBERS, catalogue.SOURCE_UP)))
"""The series of an exporter that are read, and one that each has."""

PodGpus = Mapping[tuple[str, str], tuple[ContainerGpu, ...]]
"""The GPUs of a node's containers, by pod and container."""


@dataclass(frozen=True, slots=True)
class UsagePod:
    """A pod that requests units, decoded once. ``state`` is the word that kubectl shows."""

    core: Pod
    owner: PodOwner
    phase: str
    state: str
    scheduler: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of a node: its labels, the unit of its GPUs, and the GPUs by index."""

    name: str
    labels: Mapping[str, str]
    unit: str
    cards: Mapping[int, Card] = field(default_factory=dict)


def usage_pod_of(wire: ClusterPod) -> UsagePod | None:
    """The pod; None if it requests no units."""
    core = pod_of(wire)
    if core is None:
        return None
    return UsagePod(core, wire.owner, wire.status.phase, state_of(wire), wire.spec.scheduler_name)


def node_facts_of(node: ClusterNode) -> NodeFacts:
    """The facts of a node."""
    view = view_of(node, ())
    return NodeFacts(node.name, node.labels, str(unit_of(view)), {card.index: card for card in view.cards})


def gpus_by_container(samples: Iterable[MetricSample], namespace: str) -> PodGpus:
    """The GPUs of the containers of this namespace, from the page of one exporter."""
    own = (each for each in samples if each.labels.get("namespace") == namespace)
    found: defaultdict[tuple[str, str], list[ContainerGpu]] = defaultdict(list)
    for (pod, container, card, uuid), numbers in joined(own, _LABELS, _NUMBERS):
        *amounts, utilization = numbers
        known: dict[str, Any] = {
            name: int(number) for name, number in zip(_BYTES, amounts, strict=True) if number is not None
        }
        index = int(card) if card.isdecimal() else None
        gpu = ContainerGpu(index=index, uuid=uuid or None, utilization=utilization, **known)
        found[pod, container].append(gpu)
    return {key: tuple(sorted(gpus, key=_index)) for key, gpus in found.items()}


def _index(gpu: ContainerGpu) -> int:
    return -1 if gpu.index is None else gpu.index


def gpu_pod(
    pod: UsagePod, node: NodeFacts | None, indexes: Iterable[int] | None, measured: PodGpus | None
) -> GpuPod:
    """The document. ``indexes`` are the pod's GPUs in the ledger, None if unknown.

    ``measured`` is what the exporter of its node reports of its namespace, None if it does not answer.
    """
    core = pod.core
    demand = core.demand if isinstance(core.demand, Demand) else core.demand.at_least
    sound = isinstance(core.demand, Demand)
    placed = None if indexes is None else tuple(sorted(indexes))
    return GpuPod(
        metadata=UsageMeta(
            name=core.name,
            namespace=core.namespace,
            creation_timestamp=core.created or None,
            labels=dict(core.labels),
        ),
        phase=pod.phase or None,
        state=pod.state or None,
        problem=core.demand.problem if isinstance(core.demand, Malformed) else None,
        workload=UsageOwner(pod.owner.kind, pod.owner.name),
        node=core.node,
        scheduler_name=pod.scheduler or None,
        unit=(node.unit or None) if node else None,
        requested_units=demand.mem if demand and sound else None,
        requested_gpus=demand.cards if demand and sound else None,
        gpu_indexes=placed,
        measured=measured is not None,
        containers=tuple(
            _container(each, core, node, placed, measured)
            for each in (demand.containers if demand else ())
            if each.mem
        ),
    )


def _container(
    asked: ContainerDemand,
    pod: Pod,
    node: NodeFacts | None,
    placed: tuple[int, ...] | None,
    measured: PodGpus | None,
) -> GpuContainer:
    gpus = (measured or {}).get((pod.name, asked.name))
    if gpus is None and not pod.finished:
        gpus = tuple(ContainerGpu(index=index) for index in placed or ())
    return GpuContainer(
        name=asked.name,
        requested_units=asked.mem,
        gpus=tuple(_described(gpu, pod, node, is_measured=measured is not None) for gpu in gpus or ()),
    )


def _described(gpu: ContainerGpu, pod: Pod, node: NodeFacts | None, *, is_measured: bool) -> ContainerGpu:
    """The GPU with its model, its UUID, and why it has no limit."""
    card = node.cards.get(gpu.index) if node and gpu.index is not None else None
    reason = None
    if gpu.limit_bytes is None:
        reason = why_not(pod, node.labels if node else None)
        if reason is None and is_measured:
            reason = NO_SERIES.format(node=pod.node)
    return structs.replace(
        gpu,
        uuid=gpu.uuid or (card.uuid if card else None) or None,
        model=(card.model if card else None) or None,
        gpu_memory_bytes=(card.mib * _MIB if card else None) or None,
        no_limit=reason,
    )
