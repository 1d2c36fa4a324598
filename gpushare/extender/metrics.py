"""The extender's counters. ``ledger_page`` has the gauges of its state.

Names come from ``gpushare.monitoring.catalogue``.
"""

from gpushare.monitoring import catalogue
from gpushare.monitoring.families import counter, daemon_registry, gauge, histogram

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_DELAY_BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class ExtenderMetrics:
    """All families, on a separate registry."""

    def __init__(self) -> None:
        registry = self.registry = daemon_registry()
        self.requests = counter(catalogue.EXTENDER_REQUESTS, registry)
        self.latency = histogram(catalogue.EXTENDER_LATENCY, registry, _BUCKETS)
        self.binds = counter(catalogue.EXTENDER_BINDS, registry)
        self.prioritized = counter(catalogue.EXTENDER_PRIORITIZED, registry)
        self.forwarded = counter(catalogue.EXTENDER_FORWARDED, registry)
        self.evictions = counter(catalogue.EXTENDER_ROOM, registry)
        self.unclear = gauge(catalogue.EXTENDER_UNCLEAR, registry)
        self.leads = gauge(catalogue.EXTENDER_LEADS, registry)
        self.degraded = gauge(catalogue.EXTENDER_DEGRADED, registry)
        self.certificate_expiry = gauge(catalogue.EXTENDER_CERTIFICATE_EXPIRY, registry)
        self.synced = gauge(catalogue.EXTENDER_SYNCED, registry)
        self.watch_restarts = counter(catalogue.EXTENDER_WATCH_RESTARTS, registry)
        self.events_dropped = counter(catalogue.EXTENDER_EVENTS_DROPPED, registry)
        self.replay_late = counter(catalogue.EXTENDER_REPLAY_LATE, registry)
        self.loop_delay = histogram(catalogue.EXTENDER_LOOP_DELAY, registry, _DELAY_BUCKETS)
