"""Metrics of the catalogue as families of prometheus_client: registered, or built from a set of points."""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import Metric as Family

from gpushare import __version__
from gpushare.monitoring.catalogue import BUILD_INFO, Metric

Point = tuple[tuple[str, ...], float]
"""Label values, in the order of the metric's ``labels``, and the number."""


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """All series of one metric at one moment."""

    metric: Metric
    points: Sequence[Point]


def daemon_registry() -> CollectorRegistry:
    """Return a registry with what every daemon serves."""
    registry = CollectorRegistry()
    gauge(BUILD_INFO, registry).labels(__version__).set(1)
    return registry


def build_info() -> MetricSeries:
    """Return the same for a daemon without a registry."""
    return MetricSeries(BUILD_INFO, [((__version__,), 1)])


def counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    """Register a counter."""
    return Counter(*_head(metric), registry=registry)


def gauge(metric: Metric, registry: CollectorRegistry) -> Gauge:
    """Register a gauge."""
    return Gauge(*_head(metric), registry=registry)


def histogram(metric: Metric, registry: CollectorRegistry, buckets: Sequence[float]) -> Histogram:
    """Register a histogram; ``buckets`` are upper bounds in the metric's unit."""
    return Histogram(*_head(metric), registry=registry, buckets=buckets)


def family(series: MetricSeries) -> Family:
    """Return the family with all its samples, for a collector."""
    metric = series.metric
    found = Family(metric.name, metric.help, metric.kind)
    name = str(metric)
    for values, number in series.points:
        found.add_sample(name, dict(zip(metric.labels, values, strict=True)), number)
    return found


def _head(metric: Metric) -> tuple[str, str, tuple[str, ...]]:
    return metric.name, metric.help, metric.labels
