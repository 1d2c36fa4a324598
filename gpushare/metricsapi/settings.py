"""The settings of the metrics API."""

from dataclasses import dataclass

from gpushare.contract import (
    EXPORTER_NAME,
    EXPORTER_PORT,
    METRICS_API_OPS_PORT,
    METRICS_API_PORT,
    SYSTEM_NAMESPACE,
)
from gpushare.errors import ConfigError, InvalidRequest
from gpushare.model.selector import Selector, parse_selector
from gpushare.runtime.listener import ANY_ADDRESS
from gpushare.runtime.settings import (
    ApiServiceHost,
    ApiServicePort,
    Kubeconfig,
    Level,
    LogLevel,
    OpsHost,
    OpsPort,
    Port,
    Seconds,
    TlsCert,
    TlsKey,
    setting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsApiSettings:
    """Settings of the metrics API."""

    host: ApiServiceHost = ANY_ADDRESS
    port: ApiServicePort = METRICS_API_PORT
    tls_cert: TlsCert = ""
    tls_key: TlsKey = ""
    exporter_namespace: str = setting(SYSTEM_NAMESPACE, help="Namespace of the exporter's pods.")
    exporter_selector: str = setting(f"component={EXPORTER_NAME}", help="Labels of the exporter's pods.")
    exporter_port: Port = setting(EXPORTER_PORT, help="Metrics port of the exporters.")
    deadline_seconds: Seconds = setting(5.0, help="Timeout of one scrape, in seconds.")
    keep_seconds: Seconds = setting(5.0, help="Seconds for which values are cached.")
    ops_host: OpsHost = ANY_ADDRESS
    ops_port: OpsPort = METRICS_API_OPS_PORT
    kubeconfig: Kubeconfig = None
    log_level: Level = LogLevel.INFO

    @property
    def exporters(self) -> Selector:
        """The labels of the exporter's pods. Raises ConfigError if they are invalid."""
        try:
            selector = parse_selector(self.exporter_selector)
        except InvalidRequest as error:
            raise ConfigError(f"--exporter-selector: {error}") from error
        if not selector.terms:
            raise ConfigError("--exporter-selector is empty: every pod would count as an exporter")
        return selector
