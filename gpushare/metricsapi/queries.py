"""Metrics that can be queried, their kinds of objects, and how several series become one value.

Series are combined as in the adapter rules of the ACK documentation: utilization is averaged, amounts are
summed. The labels of a metric determine whether it applies to pods, nodes or namespaces.
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

_END_OF_TIME: Final = 253_402_300_800
"""The year 10,000."""


class ObjectKind(StrEnum):
    """The kind of object that a metric describes, as in the API's paths."""

    PODS = "pods"
    NODES = "nodes"
    NAMESPACES = "namespaces"


NAME_LABELS: Final[Mapping[ObjectKind, tuple[str, ...]]] = {
    ObjectKind.PODS: ("PodName", "pod"),
    ObjectKind.NODES: ("NodeName", "node"),
    ObjectKind.NAMESPACES: ("NamespaceName", "namespace"),
}
"""The labels with an object's name: of DCGM metrics, and of ours."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric that can be queried. Its value is the combined ``read``, divided by that of ``over``."""

    shown: Metric
    read: Metric
    combine: Combine
    over: Metric | None = None

    @property
    def name(self) -> str:
        """Return the name in queries."""
        return self.shown.name

    @property
    def kinds(self) -> tuple[ObjectKind, ...]:
        """Return the kinds of objects that it applies to."""
        return tuple(kind for kind in ObjectKind if name_label(self.shown, kind))

    @property
    def sources(self) -> tuple[Metric, ...]:
        """Return the exporters' metrics that it is computed from."""
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
    """A query for one metric of the object ``name``, or of all objects of a kind if empty.

    ``namespace`` is empty for nodes, and the name itself for namespaces. ``selector`` selects series.
    """

    definition: MetricDefinition
    kind: ObjectKind
    namespace: str = ""
    name: str = ""
    selector: Selector = EVERYTHING


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A value and its time in seconds since 1970."""

    number: float
    at: float


def is_time(at: float) -> bool:
    """Whether the seconds since 1970 are a time that a document can have; false for NaN."""
    return 0 <= at < _END_OF_TIME


def name_label(metric: Metric, kind: ObjectKind) -> str:
    """Return the metric's label with the name of such objects; empty if it has none."""
    return next((label for label in NAME_LABELS[kind] if label in metric.labels), "")


def definition_of(name: str, kind: ObjectKind) -> MetricDefinition | str:
    """Return the definition, or similar names (else all) as text if there is none."""
    definition = DEFINITIONS.get(name)
    if definition and kind in definition.kinds:
        return definition
    known = [each.name for each in DEFINITIONS.values() if kind in each.kinds]
    return ", ".join(get_close_matches(name, known) or known)
