"""Tables of what cards and containers do, made of the exporters' series. Pure.

Where the series come from is ``exporters``, how a table looks is ``tables``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpushare.errors import ConfigError
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample

_MIB: Final = 2**20
_POD_LABELS: Final = ("pod", "PodName")
_NODE_LABELS: Final = ("node", "NodeName")
_CARD_LABELS: Final = ("uuid", "UUID")
_ABSENT: Final = "-"

Show = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Table:
    """Headers, and rows of as many cells, sorted."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which containers or cards to show; None is all."""

    node: str | None = None
    namespace: str | None = None
    pod: str | None = None

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether the series is one of them; what a series does not say is no reason to leave it out."""
        pairs = (
            (self.node, _first(labels, _NODE_LABELS)),
            (self.namespace, _first(labels, ("namespace", "NamespaceName"))),
            (self.pod, _first(labels, _POD_LABELS)),
        )
        return all(wanted is None or found in (None, wanted) for wanted, found in pairs)


def _mib(value: float) -> str:
    return f"{value / _MIB:.0f} MiB"


def _percent(value: float) -> str:
    return f"{value:.0%}"


_CONTAINERS: Final[tuple[tuple[str, Metric, Show], ...]] = (
    ("USED", catalogue.CONTAINER_USED, _mib),
    ("ALLOCATED", catalogue.CONTAINER_ALLOCATED, _mib),
    ("UTILIZATION", catalogue.CONTAINER_UTILIZATION, _percent),
)
_CARDS: Final[tuple[tuple[str, Metric, Show], ...]] = (
    ("USED", catalogue.CARD_USED, _mib),
    ("MEMORY", catalogue.CARD_MEMORY, _mib),
    ("UTILIZATION", catalogue.CARD_UTILIZATION, _percent),
    ("TEMPERATURE", catalogue.CARD_TEMPERATURE, lambda value: f"{value:.0f} °C"),
    ("POWER", catalogue.CARD_POWER, lambda value: f"{value:.0f} W"),
)


def containers(told: Sequence[MetricSample], wanted: UsageFilter) -> Table:
    """Every container that holds a card: what it uses of what it was given."""
    return _joined(told, ("namespace", "pod", "container", "node", "card"), _CONTAINERS, wanted)


def cards(told: Sequence[MetricSample], wanted: UsageFilter) -> Table:
    """Every card, whoever uses it."""
    return _joined(told, ("node", "card"), _CARDS, wanted)


def _joined(
    told: Sequence[MetricSample],
    keys: tuple[str, ...],
    columns: Sequence[tuple[str, Metric, Show]],
    wanted: UsageFilter,
) -> Table:
    """One row for each series of the columns' metrics with the same ``keys``."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for header, metric, show in columns:
        for sample in _of(told, metric, wanted):
            row = rows.setdefault(tuple(sample.labels.get(key, _ABSENT) for key in keys), {})
            row[header] = show(sample.number)
    headers = tuple(header for header, _, _ in columns)
    return Table(
        (*(key.upper() for key in keys), *headers),
        tuple((*key, *(row.get(each, _ABSENT) for each in headers)) for key, row in sorted(rows.items())),
    )


def metric_of_pods(name: str) -> Metric:
    """A metric whose series name a pod. Raises ConfigError with those that there are."""
    return _named(name, "pods", filter(_of_pods, catalogue.EXPORTER))


def metric_of_cards(name: str) -> Metric:
    """A metric whose series name a card and no pod. Raises ConfigError with those that there are."""
    own = (each for each in catalogue.EXPORTER if _says(each, _CARD_LABELS) and not _of_pods(each))
    return _named(name, "cards", own)


def _named(name: str, what: str, metrics: Iterable[Metric]) -> Metric:
    known = {each.name: each for each in metrics}
    if name not in known:
        raise ConfigError(f"--metric: {name!r} is no metric of {what}; use one of {', '.join(known)}")
    return known[name]


def _of_pods(metric: Metric) -> bool:
    return _says(metric, _POD_LABELS)


def _says(metric: Metric, labels: Iterable[str]) -> bool:
    return any(label in metric.labels for label in labels)


def series(told: Sequence[MetricSample], metric: Metric, wanted: UsageFilter) -> Table:
    """Every series of one metric as the exporters say it, label by label."""
    rows = [
        (*(sample.labels.get(label, _ABSENT) for label in metric.labels), f"{sample.number:g}")
        for sample in _of(told, metric, wanted)
    ]
    return Table((*(label.upper() for label in metric.labels), "VALUE"), tuple(sorted(rows)))


def _of(told: Sequence[MetricSample], metric: Metric, wanted: UsageFilter) -> list[MetricSample]:
    return [each for each in told if each.metric == str(metric) and wanted.has(each.labels)]


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((labels[name] for name in names if name in labels), None)
