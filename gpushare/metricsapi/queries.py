"""What can be asked for: which metrics, about which objects, and how several series become one number.

The names of the source documents are combined as the rules of their adapter do: parts of a card's time are
averaged, amounts are added up. Whether a metric is about pods, nodes or namespaces follows from its labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final, Literal

from gpushare.model.selector import EVERYTHING, Selector
from gpushare.monitoring import catalogue as names
from gpushare.monitoring.catalogue import Metric

Combine = Literal["avg", "sum"]


class ObjectKind(StrEnum):
    """What a metric is about, as the API's paths have it."""

    PODS = "pods"
    NODES = "nodes"
    NAMESPACES = "namespaces"


NAME_LABELS: Final[Mapping[ObjectKind, tuple[str, ...]]] = {
    ObjectKind.PODS: ("PodName", "pod"),
    ObjectKind.NODES: ("NodeName", "node"),
    ObjectKind.NAMESPACES: ("NamespaceName", "namespace"),
}
"""The labels that name an object: in the source documents' metrics, and in ours."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric as it is asked for. Its number is the combined ``read``, divided by that of ``over``."""

    shown: Metric
    read: Metric
    combine: Combine
    over: Metric | None = None

    @property
    def name(self) -> str:
        """What it is asked for by."""
        return self.shown.name

    @property
    def kinds(self) -> tuple[ObjectKind, ...]:
        """What it is about."""
        return tuple(kind for kind in ObjectKind if name_label(self.shown, kind))

    @property
    def sources(self) -> tuple[Metric, ...]:
        """The exporters' metrics that it is made of."""
        return (self.read, self.over) if self.over else (self.read,)


def _plain(combine: Combine, *metrics: Metric) -> tuple[MetricDefinition, ...]:
    return tuple(MetricDefinition(metric, metric, combine) for metric in metrics)


DEFINITIONS: Final[Mapping[str, MetricDefinition]] = {
    definition.name: definition
    for definition in (
        *_plain(
            "avg",
            names.DCGM_GPU_UTIL,
            names.DCGM_PROCESS_SM_UTIL,
            names.CARD_UTILIZATION,
            names.CONTAINER_UTILIZATION,
        ),
        *_plain(
            "sum",
            names.DCGM_FB_USED,
            names.DCGM_PROCESS_MEM_USED,
            names.DCGM_CONTAINER_MEM_ALLOCATED,
            names.DCGM_CONTAINER_CP_ALLOCATED,
            names.CARD_MEMORY,
            names.CARD_USED,
            names.CONTAINER_ALLOCATED,
            names.CONTAINER_USED,
            names.CONTAINER_CORE,
        ),
        MetricDefinition(
            names.DCGM_GPU_MEM_USED_RATIO,
            names.DCGM_PROCESS_MEM_USED,
            "sum",
            names.DCGM_CONTAINER_MEM_ALLOCATED,
        ),
    )
}
"""By name."""


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """A metric of objects of a kind: of the one called ``name``, or of all where that is empty.

    ``namespace`` is empty for nodes; a namespace is its own. ``selector`` is about the series' labels.
    """

    definition: MetricDefinition
    kind: ObjectKind
    namespace: str = ""
    name: str = ""
    selector: Selector = EVERYTHING


@dataclass(frozen=True, slots=True)
class MetricValue:
    """The number, and when it was so, in seconds since 1970."""

    number: float
    at: float


def name_label(metric: Metric, kind: ObjectKind) -> str:
    """The metric's label with the name of an object of that kind; empty where it has none."""
    return next((label for label in NAME_LABELS[kind] if label in metric.labels), "")


def definition_of(name: str, kind: ObjectKind) -> MetricDefinition | str:
    """What is offered under that name for such objects, or the names that are."""
    definition = DEFINITIONS.get(name)
    if definition and kind in definition.kinds:
        return definition
    known = [each.name for each in DEFINITIONS.values() if kind in each.kinds]
    return ", ".join(get_close_matches(name, known) or known)
