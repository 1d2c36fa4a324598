"""The agent's metrics, on a registry of their own. Names come from ``gpushare.monitoring.catalogue``."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gpushare.monitoring import catalogue

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class PluginMetrics:
    """All families of ``catalogue.DEVICE_PLUGIN``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.allocations = self._counter(catalogue.PLUGIN_ALLOCATIONS)
        self.latency = Histogram(*_head(catalogue.PLUGIN_LATENCY), registry=self.registry, buckets=_BUCKETS)
        self.corrected = self._counter(catalogue.PLUGIN_CORRECTED)
        self.registered = self._gauge(catalogue.PLUGIN_REGISTERED)
        self.registrations = self._counter(catalogue.PLUGIN_REGISTRATIONS)
        self.cards = self._gauge(catalogue.PLUGIN_CARDS)
        self.xids = self._counter(catalogue.PLUGIN_XIDS)
        self.nvml_up = self._gauge(catalogue.PLUGIN_NVML_UP)
        self.writes = self._counter(catalogue.PLUGIN_WRITES)
        self.unpublished = self._gauge(catalogue.PLUGIN_UNPUBLISHED)
        self.reduced = self._gauge(catalogue.PLUGIN_REDUCED)
        self.pods = self._gauge(catalogue.PLUGIN_PODS)

    def _counter(self, metric: catalogue.Metric) -> Counter:
        return Counter(*_head(metric), registry=self.registry)

    def _gauge(self, metric: catalogue.Metric) -> Gauge:
        return Gauge(*_head(metric), registry=self.registry)


def _head(metric: catalogue.Metric) -> tuple[str, str, tuple[str, ...]]:
    return metric.name, metric.help, metric.labels
