"""Metrics of the MPS daemon, in its own registry. Names come from ``gpushare.monitoring.catalogue``."""

from gpushare.monitoring import catalogue
from gpushare.monitoring.families import counter, daemon_registry, gauge


class MpsMetrics:
    """All metric families of ``catalogue.MPS``."""

    def __init__(self) -> None:
        registry = self.registry = daemon_registry()
        self.up = gauge(catalogue.MPS_UP, registry)
        self.starts = counter(catalogue.MPS_STARTS, registry)
        self.clients = gauge(catalogue.MPS_CLIENTS, registry)
        self.exclusive = gauge(catalogue.MPS_EXCLUSIVE, registry)
