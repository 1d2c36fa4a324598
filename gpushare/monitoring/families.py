"""Metrics of the catalogue as prometheus_client's families, on a registry or made at once."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import Metric as Family

from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.series import Series


def counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    """A counter that the code bumps."""
    return Counter(*_head(metric), registry=registry)


def gauge(metric: Metric, registry: CollectorRegistry) -> Gauge:
    """A gauge that the code sets."""
    return Gauge(*_head(metric), registry=registry)


def histogram(metric: Metric, registry: CollectorRegistry, buckets: Sequence[float]) -> Histogram:
    """A histogram; ``buckets`` are upper bounds in the metric's unit."""
    return Histogram(*_head(metric), registry=registry, buckets=buckets)


def family(series: Series) -> Family:
    """A family with all its samples, for a collector."""
    metric = series.metric
    found = Family(metric.name, metric.help, metric.kind)
    name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
    for values, number in series.points:
        found.add_sample(name, dict(zip(metric.labels, values, strict=True)), number)
    return found


def _head(metric: Metric) -> tuple[str, str, tuple[str, ...]]:
    return metric.name, metric.help, metric.labels
