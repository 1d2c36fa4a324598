"""Checks of monitoring, and of servers that the API server calls. Part of ``components.checks``."""

from typing import Final

from components.config_extender import Webhook
from components.config_monitoring import MetricsApi, Monitoring, Prometheus
from components.formats import (
    check_namespaced,
)
from components.options import check_options
from gpushare.contract import METRICS_API_GROUP, RUNBOOKS
from gpushare.errors import ConfigError

PLACEHOLDER: Final = "://example.com/"
"""The host of documentation, which no page is on."""
_PEM: Final = "-----BEGIN CERTIFICATE-----"


def advice_on(monitoring: Monitoring) -> list[str]:
    """What valid settings lack."""
    placeholder = (
        f"monitoring.runbooks: {monitoring.runbooks}, to which all alerts link, is a placeholder; "
        f"set the URL of your copy of {RUNBOOKS}"
    )
    return [placeholder] if PLACEHOLDER in monitoring.runbooks else []


def check_monitoring(where: str, monitoring: Monitoring) -> None:
    """Checks all parts of monitoring."""
    check_options(f"{where}.exporter", monitoring.exporter)
    if "" in monitoring.viewers:
        raise ConfigError(f"{where}.viewers: '' is not allowed; use names of groups, like data-scientists")
    if monitoring.metrics_api:
        _check_metrics_api(f"{where}.metricsApi", monitoring.metrics_api)
    if monitoring.board:
        check_options(f"{where}.board", monitoring.board)
    if monitoring.prometheus:
        _check_prometheus(f"{where}.prometheus", monitoring.prometheus)
    if monitoring.prometheus and monitoring.operator:
        raise ConfigError(f"{where}.prometheus: {where}.operator is also set; keep one Prometheus")
    if monitoring.metrics_api and monitoring.adapter_rules:
        raise ConfigError(
            f"{where}.adapterRules: {where}.metricsApi also serves {METRICS_API_GROUP}, like "
            "prometheus-adapter; keep one of the two"
        )


def _check_prometheus(where: str, prometheus: Prometheus) -> None:
    if prometheus.storage_class is not None and prometheus.storage is None:
        raise ConfigError(f"{where}.storageClass: only with {where}.storage; set it, like 20Gi")


def _check_metrics_api(where: str, api: MetricsApi) -> None:
    check_options(where, api)
    check_ca(where, api)


def check_ca(where: str, server: MetricsApi | Webhook) -> None:
    """Exactly one source of the CA certificates."""
    text, source = server.ca_bundle, server.inject_ca_from
    if source:
        check_namespaced(f"{where}.injectCaFrom", source)
        if text:
            raise ConfigError(f"{where}.injectCaFrom: {where}.caBundle is also set; keep one")
    elif _PEM not in text:
        raise ConfigError(
            f"{where}.caBundle: {text!r} is not a certificate; set it to the text of ca.crt, or injectCaFrom "
            "for cert-manager"
        )
