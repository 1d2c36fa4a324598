"""Metrics of the installer of the isolation library."""

from typing import Final

from gpushare.monitoring.catalogue.metric import Metric

LIBRARY_INFO: Final = Metric(
    "gpushare_isolation_library_info",
    "gauge",
    "1; its label tells the version of the isolation library that new containers of the node get.",
    ("version",),
)
