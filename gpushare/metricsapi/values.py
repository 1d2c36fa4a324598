"""Evaluation of queries on samples: select, group by object, combine. Pure."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpushare.metricsapi.queries import Combine, MetricQuery, MetricValue, ObjectKind, name_label
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample


@dataclass(frozen=True, slots=True)
class TimedSample:
    """A sample and its time in seconds since 1970."""

    sample: MetricSample
    at: float


@dataclass(slots=True)
class ExporterReadings:
    """Readings of all exporters by metric and namespace, which is empty for readings without one."""

    by_metric: dict[str, dict[str, list[TimedSample]]] = field(default_factory=dict)

    def add(self, page: Iterable[MetricSample], at: float) -> None:
        """Add the samples of one exporter, read at time ``at``."""
        for sample in page:
            if not math.isfinite(sample.number):
                continue
            namespace = sample.labels.get("NamespaceName") or sample.labels.get("namespace", "")
            by_namespace = self.by_metric.setdefault(sample.metric, {})
            by_namespace.setdefault(namespace, []).append(TimedSample(sample, at))

    def values(self, query: MetricQuery) -> dict[str, MetricValue]:
        """Return values by object name; objects without readings are omitted."""
        definition = query.definition
        found = self._combined(definition.read, query, definition.combine)
        if definition.over is None:
            return found
        whole = self._combined(definition.over, query, "sum")
        return {
            name: MetricValue(value.number / whole[name].number, value.at)
            for name, value in found.items()
            if name in whole and whole[name].number
        }

    def _combined(self, metric: Metric, query: MetricQuery, combine: Combine) -> dict[str, MetricValue]:
        label = name_label(metric, query.kind)
        groups: dict[str, list[TimedSample]] = {}
        for reading in self._shown(metric, query):
            name = reading.sample.labels.get(label, "")
            if name and query.name in ("", name) and query.selector(reading.sample.labels):
                groups.setdefault(name, []).append(reading)
        return {name: _value(readings, combine) for name, readings in groups.items()}

    def _shown(self, metric: Metric, query: MetricQuery) -> Iterator[TimedSample]:
        by_metric: Mapping[str, list[TimedSample]] = self.by_metric.get(metric.name, {})
        if query.kind is not ObjectKind.NODES:
            yield from by_metric.get(query.namespace, ())
            return
        for readings in by_metric.values():
            yield from readings


def _value(readings: list[TimedSample], combine: Combine) -> MetricValue:
    total = math.fsum(reading.sample.number for reading in readings)
    number = total / len(readings) if combine == "avg" else total
    return MetricValue(number, min(reading.at for reading in readings))
