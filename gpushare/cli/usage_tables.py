"""Tables of the usage of GPUs and containers, from the exporters' series. Pure.

``exporters`` reads the series, ``tables`` formats a table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpushare.cli.tables import ABSENT, Table, mib
from gpushare.errors import ConfigError
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample

_POD_LABELS: Final = ("pod", "PodName")
_NODE_LABELS: Final = ("node", "NodeName")
_CARD_LABELS: Final = ("uuid", "UUID")

Formatter = Callable[[float], str]


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


def _percent(value: float) -> str:
    return f"{value:.0%}"


_CONTAINERS: Final[tuple[tuple[str, Metric, Formatter], ...]] = (
    ("USED", catalogue.CONTAINER_USED, mib),
    ("ALLOCATED", catalogue.CONTAINER_ALLOCATED, mib),
    ("UTILIZATION", catalogue.CONTAINER_UTILIZATION, _percent),
)
_CARDS: Final[tuple[tuple[str, Metric, Formatter], ...]] = (
    ("USED", catalogue.CARD_USED, mib),
    ("MEMORY", catalogue.CARD_MEMORY, mib),
    ("UTILIZATION", catalogue.CARD_UTILIZATION, _percent),
    ("TEMPERATURE", catalogue.CARD_TEMPERATURE, lambda value: f"{value:.0f} °C"),
    ("POWER", catalogue.CARD_POWER, lambda value: f"{value:.0f} W"),
)


def containers(samples: Sequence[MetricSample], usage_filter: UsageFilter) -> Table:
    """Every container with a GPU: used and allocated memory."""
    return _joined(samples, ("namespace", "pod", "container", "node", "card"), _CONTAINERS, usage_filter)


def cards(samples: Sequence[MetricSample], usage_filter: UsageFilter) -> Table:
    """Every GPU."""
    return _joined(samples, ("node", "card"), _CARDS, usage_filter)


def _joined(
    samples: Sequence[MetricSample],
    keys: tuple[str, ...],
    columns: Sequence[tuple[str, Metric, Formatter]],
    usage_filter: UsageFilter,
) -> Table:
    """One row for each series of the columns' metrics with the same ``keys``."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for header, metric, show in columns:
        for sample in _of(samples, metric, usage_filter):
            row = rows.setdefault(tuple(sample.labels.get(key, ABSENT) for key in keys), {})
            row[header] = show(sample.number)
    headers = tuple(header for header, _, _ in columns)
    return Table(
        (*(key.upper() for key in keys), *headers),
        tuple((*key, *(row.get(each, ABSENT) for each in headers)) for key, row in sorted(rows.items())),
    )


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


def series(samples: Sequence[MetricSample], metric: Metric, usage_filter: UsageFilter) -> Table:
    """Every series of one metric, one column per label."""
    rows = [
        (*(sample.labels.get(label, ABSENT) for label in metric.labels), f"{sample.number:g}")
        for sample in _of(samples, metric, usage_filter)
    ]
    return Table((*(label.upper() for label in metric.labels), "VALUE"), tuple(sorted(rows)))


def _of(samples: Sequence[MetricSample], metric: Metric, usage_filter: UsageFilter) -> list[MetricSample]:
    return [each for each in samples if each.metric == str(metric) and usage_filter.matches(each.labels)]


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((labels[name] for name in names if name in labels), None)
