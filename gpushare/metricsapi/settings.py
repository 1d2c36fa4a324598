"""The metrics API's settings."""

from dataclasses import dataclass
from typing import Literal

from gpushare.model.selector import Selector

SourceName = Literal["exporters", "prometheus"]


@dataclass(frozen=True, slots=True)
class MetricsApiSettings:
    """Created by the command line (``main``); every field has a flag or an environment variable.

    ``exporters`` are the labels of the exporter's pods in ``exporter_namespace``; ``prometheus_url`` is used
    with the source ``prometheus`` only. ``deadline_s`` is the timeout of one scrape or query, ``keep_s`` the
    lifetime of cached values.
    """

    host: str
    port: int
    ops_host: str
    ops_port: int
    kubeconfig: str | None
    log_level: str
    tls_cert: str
    tls_key: str
    source: SourceName
    prometheus_url: str
    exporters: Selector
    exporter_namespace: str
    exporter_port: int
    deadline_s: float
    keep_s: float
