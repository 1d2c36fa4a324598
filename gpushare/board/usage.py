"""The usage of GPUs and containers at one moment, by node, and since when a node has none. Pure.

The numbers are those of ``top`` and ``limits``: an unknown number is None, never 0.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpushare.monitoring.page import MetricSample
from gpushare.overview.limits import container_limits
from gpushare.overview.usage import CONTAINER, CONTAINER_METRICS, GPU, GPU_METRICS, joined

ContainerKey = tuple[str, str, str, str, str]
"""Namespace, pod, container, node and GPU index."""


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """One GPU. ``utilization`` is from 0 to 1."""

    used_bytes: float | None
    memory_bytes: float | None
    utilization: float | None


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """One container on one GPU; ``limit_bytes``, ``peak_bytes`` and ``refusals`` are None without isolation.

    ``utilization`` is from 0 to 1.
    """

    used_bytes: float | None
    allocated_bytes: float | None
    utilization: float | None
    limit_bytes: int | None = None
    peak_bytes: int | None = None
    refusals: int | None = None

    @property
    def idle_bytes(self) -> float | None:
        """Allocated and not used, at least 0."""
        if self.allocated_bytes is None or self.used_bytes is None:
            return None
        return max(0.0, self.allocated_bytes - self.used_bytes)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the exporter of a node reported at time ``at``; GPUs by index."""

    at: float
    gpus: Mapping[str, GpuUsage]
    containers: Mapping[ContainerKey, ContainerUsage]


@dataclass(frozen=True, slots=True)
class Live:
    """The last report of each node. ``asked_at`` is the time of the last round, None before the first.

    ``problems`` are those of that round.
    """

    nodes: Mapping[str, NodeReport] = field(default_factory=dict)
    asked_at: float | None = None
    problems: tuple[str, ...] = ()

    def now(self, node: str) -> NodeReport | None:
        """What the exporter of the node reported in the last round; None if it did not."""
        usage = self.nodes.get(node)
        return usage if usage is not None and usage.at == self.asked_at else None

    def last_at(self, node: str) -> float | None:
        """The time of the node's last report; None if there was none."""
        usage = self.nodes.get(node)
        return usage.at if usage else None


def after_round(live: Live, at: float, samples: Sequence[MetricSample], problems: Sequence[str]) -> Live:
    """``live`` after a round of reading all exporters; nodes that did not answer keep their report."""
    return Live({**live.nodes, **usage_by_node(samples, at)}, at, tuple(problems))


def without_others(live: Live, nodes: frozenset[str]) -> Live:
    """``live`` of these nodes only."""
    return replace(live, nodes={name: each for name, each in live.nodes.items() if name in nodes})


def usage_by_node(samples: Sequence[MetricSample], at: float) -> dict[str, NodeReport]:
    """The nodes of whose GPUs there are series."""
    gpus: defaultdict[str, dict[str, GpuUsage]] = defaultdict(dict)
    for (node, card), (used, memory, utilization, *_) in joined(samples, GPU, GPU_METRICS):
        gpus[node][card] = GpuUsage(used, memory, utilization)
    limits = {
        (each.namespace, each.pod, each.container, each.node, each.card): (
            each.limit_bytes,
            each.peak_bytes,
            each.refusals,
        )
        for each in container_limits(samples)
    }
    found: defaultdict[str, dict[ContainerKey, ContainerUsage]] = defaultdict(dict)
    for (namespace, pod, container, node, card), (used, allocated, busy) in joined(
        samples, CONTAINER, CONTAINER_METRICS
    ):
        key = (namespace, pod, container, node, card)
        found[node][key] = ContainerUsage(used, allocated, busy, *limits.get(key, ()))
    return {node: NodeReport(at, by_card, found[node]) for node, by_card in gpus.items()}


def total(numbers: Sequence[float | None]) -> float | None:
    """The sum; None if there are none or one is unknown."""
    known = [each for each in numbers if each is not None]
    return sum(known) if known and len(known) == len(numbers) else None
