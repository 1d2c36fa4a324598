"""Metrics of the metrics API."""

from typing import Final

from gpushare.monitoring.catalogue.metric import Metric

API_REQUESTS: Final = Metric(
    "gpushare_metrics_api_requests",
    "counter",
    "Requests by kind of object (pods, nodes, namespaces, other) and HTTP status.",
    ("kind", "code"),
)
API_LATENCY: Final = Metric(
    "gpushare_metrics_api_request_duration_seconds",
    "histogram",
    "Time to answer a request, by kind of object.",
    ("kind",),
)
API_REVIEWS: Final = Metric(
    "gpushare_metrics_api_access_reviews",
    "counter",
    "Questions to the API server whether a client may read, by result (allowed, denied, error).",
    ("result",),
)
API_SOURCE_READS: Final = Metric(
    "gpushare_metrics_api_source_reads",
    "counter",
    "Scrapes of exporters, or queries to Prometheus, by result (ok, error).",
    ("result",),
)
API_SYNCED: Final = Metric(
    "gpushare_metrics_api_cache_synced", "gauge", "1 once the resource is listed.", ("resource",)
)
API_WATCH_RESTARTS: Final = Metric(
    "gpushare_metrics_api_watch_restarts",
    "counter",
    "Lists and watches that failed and were begun again.",
    ("resource",),
)
