"""The usage of GPUs and containers, from the exporters' series: series of one thing are joined. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample

POD_LABELS: Final = ("pod", "PodName")
"""The label of our metrics, and that of ACK's."""
_NODE_LABELS: Final = ("node", "NodeName")
_NAMESPACE_LABELS: Final = ("namespace", "NamespaceName")
CONTAINER: Final = ("namespace", "pod", "container", "node", "card")
GPU: Final = ("node", "card")
CONTAINER_METRICS: Final = (
    catalogue.CONTAINER_USED,
    catalogue.CONTAINER_ALLOCATED,
    catalogue.CONTAINER_UTILIZATION,
)
GPU_METRICS: Final = (
    catalogue.CARD_USED,
    catalogue.CARD_MEMORY,
    catalogue.CARD_UTILIZATION,
    catalogue.CARD_TEMPERATURE,
    catalogue.CARD_POWER,
)

JoinedRow = tuple[tuple[str, ...], tuple[float | None, ...]]
"""Labels and numbers; a missing label is empty, an unknown number is None."""


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Selects series; None selects all."""

    node: str | None = None
    namespace: str | None = None
    pod: str | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the series is selected; a missing label matches."""
        pairs = (
            (self.node, _first(labels, _NODE_LABELS)),
            (self.namespace, _first(labels, _NAMESPACE_LABELS)),
            (self.pod, _first(labels, POD_LABELS)),
        )
        return all(value is None or found in (None, value) for value, found in pairs)


EVERYTHING: Final = UsageFilter()


def joined(
    samples: Iterable[MetricSample],
    labels: Sequence[str],
    metrics: Sequence[Metric],
    selected: UsageFilter = EVERYTHING,
) -> list[JoinedRow]:
    """A row for each combination of labels, sorted, with a number for each metric; only finite numbers."""
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    names = [str(metric) for metric in metrics]
    for sample in samples:
        if sample.metric in names and math.isfinite(sample.number) and selected.matches(sample.labels):
            rows.setdefault(label_values(sample, labels), {})[sample.metric] = sample.number
    return [(key, tuple(map(numbers.get, names))) for key, numbers in sorted(rows.items())]


def label_values(sample: MetricSample, labels: Sequence[str]) -> tuple[str, ...]:
    """The values of these labels; empty for an absent one."""
    return tuple(sample.labels.get(label, "") for label in labels)


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((labels[name] for name in names if name in labels), None)
