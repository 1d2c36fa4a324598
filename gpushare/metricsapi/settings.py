"""The metrics API's settings: what can be set, its unit, its default and why."""

from dataclasses import dataclass
from typing import Literal

from gpushare.model.selector import Selector

SourceName = Literal["exporters", "prometheus"]


@dataclass(frozen=True, slots=True)
class MetricsApiSettings:
    """Made by the command line (``main``); every field has a flag or an environment variable.

    ``exporters`` are the labels of the exporter's pods in ``exporter_namespace``; ``prometheus_url`` is used
    with the source ``prometheus`` only. ``deadline_s`` is how long one scrape or query may take, ``keep_s``
    how long its answer is used.
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
