"""The daemon's metrics on a separate registry. Names come from the catalogue."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gpushare.errors import SourceError
from gpushare.monitoring import catalogue
from gpushare.monitoring.families import counter, daemon_registry, gauge, histogram

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class ApiMetrics:
    """All metrics of ``catalogue.METRICS_API``."""

    def __init__(self) -> None:
        registry = self.registry = daemon_registry()
        self.requests = counter(catalogue.API_REQUESTS, registry)
        self.latency = histogram(catalogue.API_LATENCY, registry, _BUCKETS)
        self.reviews = counter(catalogue.API_REVIEWS, registry)
        self.scrapes = counter(catalogue.API_SCRAPES, registry)
        self.synced = gauge(catalogue.API_SYNCED, registry)
        self.watch_restarts = counter(catalogue.API_WATCH_RESTARTS, registry)
        self.certificate_expiry = gauge(catalogue.API_CERTIFICATE_EXPIRY, registry)

    @contextmanager
    def scrape(self) -> Iterator[None]:
        """Count a scrape by result."""
        try:
            yield
        except SourceError:
            self.scrapes.labels("error").inc()
            raise
        self.scrapes.labels("ok").inc()
