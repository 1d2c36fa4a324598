"""From samples to the numbers that are asked for: selected, grouped by object, combined. Pure."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpushare.metricsapi.queries import Combine, MetricQuery, MetricValue, ObjectKind, name_label
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample


@dataclass(frozen=True, slots=True)
class Reading:
    """A sample and when it was so, in seconds since 1970."""

    sample: MetricSample
    at: float


Shelf = dict[str, list[Reading]]
"""Namespace → readings; those of no namespace under an empty name."""


@dataclass(slots=True)
class ExporterReadings:
    """What all exporters showed: metric → namespace → readings."""

    shelves: dict[str, Shelf] = field(default_factory=dict)

    def add(self, page: Iterable[MetricSample], at: float) -> None:
        """Enter the samples of one exporter, read at that moment."""
        for sample in filter(_is_number, page):
            namespace = sample.labels.get("NamespaceName") or sample.labels.get("namespace", "")
            shelf = self.shelves.setdefault(sample.metric, {})
            shelf.setdefault(namespace, []).append(Reading(sample, at))

    def values(self, question: MetricQuery) -> dict[str, MetricValue]:
        """Name of an object → its number; without objects of which nothing is known."""
        offer = question.offer
        found = self._combined(offer.read, question, offer.combine)
        if offer.over is None:
            return found
        whole = self._combined(offer.over, question, "sum")
        return {
            name: MetricValue(value.number / whole[name].number, value.at)
            for name, value in found.items()
            if name in whole and whole[name].number
        }

    def _combined(self, metric: Metric, question: MetricQuery, combine: Combine) -> dict[str, MetricValue]:
        label = name_label(metric, question.kind)
        groups: dict[str, list[Reading]] = {}
        for reading in self._shown(metric, question):
            name = reading.sample.labels.get(label, "")
            if name and question.name in ("", name) and question.selector(reading.sample.labels):
                groups.setdefault(name, []).append(reading)
        return {name: _value(readings, combine) for name, readings in groups.items()}

    def _shown(self, metric: Metric, question: MetricQuery) -> Iterator[Reading]:
        shelves: Mapping[str, list[Reading]] = self.shelves.get(metric.name, {})
        if question.kind is not ObjectKind.NODES:
            yield from shelves.get(question.namespace, ())
            return
        for readings in shelves.values():
            yield from readings


def _is_number(sample: MetricSample) -> bool:
    return math.isfinite(sample.number)


def _value(readings: list[Reading], combine: Combine) -> MetricValue:
    total = math.fsum(reading.sample.number for reading in readings)
    number = total / len(readings) if combine == "avg" else total
    return MetricValue(number, min(reading.at for reading in readings))
