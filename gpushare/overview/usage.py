"""The usage of GPUs and containers, from the exporters' series: as tables and as documents. Pure.

``exporters`` reads the series, ``tables`` formats a table.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpushare.cli.lib.text_table import ABSENT, Table, mib
from gpushare.errors import ConfigError
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample
from gpushare.overview.node_document import API_VERSION

_POD_LABELS: Final = ("pod", "PodName")
_NODE_LABELS: Final = ("node", "NodeName")
_CARD_LABELS: Final = ("uuid", "UUID")


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Selects the series to show; None selects all."""

    node: str | None = None
    namespace: str | None = None
    pod: str | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the series is selected; a missing label matches."""
        pairs = (
            (self.node, _first(labels, _NODE_LABELS)),
            (self.namespace, _first(labels, ("namespace", "NamespaceName"))),
            (self.pod, _first(labels, _POD_LABELS)),
        )
        return all(value is None or found in (None, value) for value, found in pairs)


@dataclass(frozen=True, slots=True)
class Column:
    """A number of each row: its header in a table, its key in a document, and its text in a cell."""

    header: str
    key: str
    show: Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Usage:
    """Sorted rows of labels and numbers; a missing label is empty, an unknown number is None."""

    kind: str
    labels: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[float | None, ...]], ...]


def table(usage: Usage) -> Table:
    """For a terminal."""
    headers = (*(label.upper() for label in usage.labels), *(column.header for column in usage.columns))
    return Table(headers, tuple(_cells(usage.columns, *row) for row in usage.rows))


def _cells(
    columns: Sequence[Column], labels: Sequence[str], numbers: Sequence[float | None]
) -> tuple[str, ...]:
    shown = (
        ABSENT if number is None else column.show(number)
        for column, number in zip(columns, numbers, strict=True)
    )
    return (*(label or ABSENT for label in labels), *shown)


def document(usage: Usage) -> dict[str, Any]:
    """For programs: labels are text, numbers are numbers, unknown values are null."""
    keys = (*usage.labels, *(column.key for column in usage.columns))
    items = [
        dict(zip(keys, (*(label or None for label in labels), *map(_exact, numbers)), strict=True))
        for labels, numbers in usage.rows
    ]
    return {"apiVersion": API_VERSION, "kind": usage.kind, "items": items}


def _exact(number: float | None) -> float | None:
    """Integers without a fraction; JSON has no numbers that are not finite."""
    if number is None or not math.isfinite(number):
        return None
    whole = int(number)
    return whole if whole == number else number


_CONTAINERS: Final = (
    (Column("USED", "usedBytes", mib), catalogue.CONTAINER_USED),
    (Column("ALLOCATED", "allocatedBytes", mib), catalogue.CONTAINER_ALLOCATED),
    (Column("UTILIZATION", "utilization", "{:.0%}".format), catalogue.CONTAINER_UTILIZATION),
)
_CARDS: Final = (
    (Column("USED", "usedBytes", mib), catalogue.CARD_USED),
    (Column("MEMORY", "memoryBytes", mib), catalogue.CARD_MEMORY),
    (Column("UTILIZATION", "utilization", "{:.0%}".format), catalogue.CARD_UTILIZATION),
    (Column("TEMPERATURE", "temperatureCelsius", "{:.0f} °C".format), catalogue.CARD_TEMPERATURE),
    (Column("POWER", "powerWatts", "{:.0f} W".format), catalogue.CARD_POWER),
)
_VALUE: Final = Column("VALUE", "value", "{:g}".format)


def containers(samples: Sequence[MetricSample], usage_filter: UsageFilter) -> Usage:
    """Every container with a GPU: used and allocated memory."""
    labels = ("namespace", "pod", "container", "node", "card")
    return _joined("ContainerUsageList", samples, labels, _CONTAINERS, usage_filter)


def cards(samples: Sequence[MetricSample], usage_filter: UsageFilter) -> Usage:
    """Every GPU."""
    return _joined("CardUsageList", samples, ("node", "card"), _CARDS, usage_filter)


def _joined(
    kind: str,
    samples: Sequence[MetricSample],
    labels: tuple[str, ...],
    columns: Sequence[tuple[Column, Metric]],
    usage_filter: UsageFilter,
) -> Usage:
    """One row for each series of the columns' metrics with the same labels."""
    rows: dict[tuple[str, ...], dict[Metric, float]] = {}
    for _, metric in columns:
        for sample in _of(samples, metric, usage_filter):
            rows.setdefault(_values(sample, labels), {})[metric] = sample.number
    numbers = {key: tuple(row.get(metric) for _, metric in columns) for key, row in rows.items()}
    return Usage(kind, labels, tuple(column for column, _ in columns), tuple(sorted(numbers.items())))


def series(samples: Sequence[MetricSample], metric: Metric, usage_filter: UsageFilter) -> Usage:
    """Every series of one metric."""
    rows = ((_values(each, metric.labels), (each.number,)) for each in _of(samples, metric, usage_filter))
    return Usage("SeriesList", tuple(metric.labels), (_VALUE,), tuple(sorted(rows)))


def _values(sample: MetricSample, labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(sample.labels.get(label, "") for label in labels)


def metric_of_pods(name: str) -> Metric:
    """The metric of that name with a pod label. Raises ConfigError with the known names."""
    return _named(name, "pods", filter(_of_pods, catalogue.EXPORTER))


def metric_of_cards(name: str) -> Metric:
    """The metric of that name with a GPU label and no pod label. Raises ConfigError with the known names."""
    own = (each for each in catalogue.EXPORTER if _has_label(each, _CARD_LABELS) and not _of_pods(each))
    return _named(name, "GPUs", own)


def _named(name: str, what: str, metrics: Iterable[Metric]) -> Metric:
    """The metric of that name; the suffix ``_total`` of a counter is optional."""
    known = list(metrics)
    for metric in known:
        if name in (str(metric), metric.name):
            return metric
    names = ", ".join(map(str, known))
    raise ConfigError(f"--metric: {name!r} is not a metric of {what}; use one of {names}")


def _of_pods(metric: Metric) -> bool:
    return _has_label(metric, _POD_LABELS)


def _has_label(metric: Metric, labels: Iterable[str]) -> bool:
    return any(label in metric.labels for label in labels)


def _of(samples: Sequence[MetricSample], metric: Metric, usage_filter: UsageFilter) -> list[MetricSample]:
    return [each for each in samples if each.metric == str(metric) and usage_filter.matches(each.labels)]


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((labels[name] for name in names if name in labels), None)
