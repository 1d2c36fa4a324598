"""Metrics of the node agent, in its own registry. Names come from ``gpushare.monitoring.catalogue``."""

from typing import Final

import structlog

from gpushare.monitoring import catalogue
from gpushare.monitoring.families import counter, daemon_registry, gauge, histogram

log = structlog.get_logger()

_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_EVENTS: Final = "events"
"""Value of the labels for writes and missing rights."""


class PluginMetrics:
    """All metric families of ``catalogue.DEVICE_PLUGIN``."""

    def __init__(self) -> None:
        registry = self.registry = daemon_registry()
        self.allocations = counter(catalogue.PLUGIN_ALLOCATIONS, registry)
        self.latency = histogram(catalogue.PLUGIN_LATENCY, registry, _BUCKETS)
        self.corrected = counter(catalogue.PLUGIN_CORRECTED, registry)
        self.registered = gauge(catalogue.PLUGIN_REGISTERED, registry)
        self.registrations = counter(catalogue.PLUGIN_REGISTRATIONS, registry)
        self.cards = gauge(catalogue.PLUGIN_CARDS, registry)
        self.unhealthy = gauge(catalogue.PLUGIN_UNHEALTHY, registry)
        self.xids = counter(catalogue.PLUGIN_XIDS, registry)
        self.nvml_up = gauge(catalogue.PLUGIN_NVML_UP, registry)
        self.writes = counter(catalogue.PLUGIN_WRITES, registry)
        self.unpublished = gauge(catalogue.PLUGIN_UNPUBLISHED, registry)
        self.degraded = gauge(catalogue.PLUGIN_DEGRADED, registry)
        self.closed = gauge(catalogue.PLUGIN_CLOSED, registry)
        self.stuck = gauge(catalogue.PLUGIN_STUCK, registry)
        self.stale = gauge(catalogue.PLUGIN_WATCH_STALE, registry)
        self.pods = gauge(catalogue.PLUGIN_PODS, registry)
        self.sample_age = gauge(catalogue.PLUGIN_SAMPLE_AGE, registry)
        self.regions = counter(catalogue.PLUGIN_REGIONS, registry)


class PluginEventMetrics:
    """The event recorder's counters: writes of events by result, and the gauge of the missing right."""

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics

    def written(self) -> None:
        """Count a written event."""
        self._metrics.writes.labels(_EVENTS, "ok").inc()

    def failed(self) -> None:
        """Count a failed attempt."""
        self._metrics.writes.labels(_EVENTS, "error").inc()

    def dropped(self) -> None:
        """Count a dropped event."""
        self._metrics.writes.labels(_EVENTS, "dropped").inc()

    def forbidden(self, *, forbidden: bool) -> None:
        """Set the gauge of the missing right."""
        self._metrics.degraded.labels(_EVENTS).set(forbidden)


class DegradedMode:
    """What the agent does without because a right or a mount is missing: one log line and metric for each.

    Names of rights are values of a metric label.
    """

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics

    def begin(self, right: str, effect: str) -> None:
        """Report that a right is missing, with the effect of that."""
        log.warning("degraded_mode", right=right, effect=effect)
        self._metrics.degraded.labels(right).set(1)

    def end(self, right: str) -> None:
        """Report that a right is there again."""
        self._metrics.degraded.labels(right).set(0)
        log.info("degraded_mode_over", right=right)
