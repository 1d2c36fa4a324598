"""Metrics of the catalogue as prometheus_client's families on a registry."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gpushare.monitoring.catalogue import Metric


def counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    """A counter that the code bumps."""
    return Counter(*_head(metric), registry=registry)


def gauge(metric: Metric, registry: CollectorRegistry) -> Gauge:
    """A gauge that the code sets."""
    return Gauge(*_head(metric), registry=registry)


def histogram(metric: Metric, registry: CollectorRegistry, buckets: Sequence[float]) -> Histogram:
    """A histogram; ``buckets`` are upper bounds in the metric's unit."""
    return Histogram(*_head(metric), registry=registry, buckets=buckets)


def _head(metric: Metric) -> tuple[str, str, tuple[str, ...]]:
    return metric.name, metric.help, metric.labels
