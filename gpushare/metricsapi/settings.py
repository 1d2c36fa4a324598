"""The metrics API's settings."""

from dataclasses import dataclass

from gpushare.model.selector import Selector


@dataclass(frozen=True, slots=True)
class MetricsApiSettings:
    """Created by the command line (``main``); every field has a flag or an environment variable.

    ``exporters`` are the labels of the exporter's pods in ``exporter_namespace``. ``deadline_s`` is the
    timeout of one scrape, ``keep_s`` the lifetime of cached values.
    """

    host: str
    port: int
    ops_host: str
    ops_port: int
    kubeconfig: str | None
    log_level: str
    tls_cert: str
    tls_key: str
    exporters: Selector
    exporter_namespace: str
    exporter_port: int
    deadline_s: float
    keep_s: float
