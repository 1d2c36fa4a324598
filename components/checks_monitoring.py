"""Rules for the settings of monitoring, as ``components.checks`` has the others. Pure."""

from typing import Final

from components.config_monitoring import Exporter, MetricsApi, MetricsSource, Monitoring
from components.forms import check_any_label, check_name, check_path, check_size
from gpushare.contract import METRICS_API_GROUP
from gpushare.errors import ConfigError

_PEM: Final = "-----BEGIN CERTIFICATE-----"


def check_monitoring(where: str, monitoring: Monitoring) -> None:
    """Of all its parts. Raises ConfigError for the first breach."""
    _check_exporter(f"{where}.exporter", monitoring.exporter)
    if monitoring.metrics_api:
        _check_metrics_api(f"{where}.metricsApi", monitoring.metrics_api)
    if monitoring.metrics_api and monitoring.adapter_rules:
        raise ConfigError(
            f"{where}.adapterRules: {where}.metricsApi answers {METRICS_API_GROUP} already, as "
            "prometheus-adapter would; keep one of the two"
        )


def _check_metrics_api(where: str, api: MetricsApi) -> None:
    check_size(where, api.cpu, api.memory)
    check_name(f"{where}.tlsSecret", api.tls_secret)
    if _PEM not in api.ca_bundle:
        raise ConfigError(f"{where}.caBundle: {api.ca_bundle!r} is no certificate; give the text of ca.crt")
    if api.replicas < 1:
        raise ConfigError(f"{where}.replicas: {api.replicas} is not allowed; use 1 or more")
    if (api.source is MetricsSource.PROMETHEUS) != bool(api.prometheus_url):
        raise ConfigError(
            f"{where}.prometheusUrl: {api.prometheus_url!r} does not go with source {api.source}; "
            f"it is for {MetricsSource.PROMETHEUS}, like http://prometheus.monitoring:9090"
        )
    if api.prometheus_url and not api.prometheus_url.startswith(("http://", "https://")):
        raise ConfigError(f"{where}.prometheusUrl: {api.prometheus_url!r} is no URL; use http:// or https://")


def _check_exporter(where: str, exporter: Exporter) -> None:
    check_size(where, exporter.cpu, exporter.memory)
    check_any_label(f"{where}.nodeLabels", exporter.node_labels)
    if exporter.interval_seconds < 1:
        raise ConfigError(
            f"{where}.intervalSeconds: {exporter.interval_seconds} is not allowed; use 1 or more"
        )
    check_path(f"{where}.kubeletRoot", exporter.kubelet_root)
