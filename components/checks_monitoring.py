"""Checks of monitoring, and of servers that the API server calls. Part of ``components.checks``."""

from typing import Final

from components.config_extender import Webhook
from components.config_monitoring import MetricsApi, Monitoring
from components.formats import check_namespaced
from components.options import check_options
from gpushare.contract import METRICS_API_GROUP
from gpushare.errors import ConfigError

_PEM: Final = "-----BEGIN CERTIFICATE-----"


def check_monitoring(monitoring: Monitoring) -> None:
    """Checks all parts of monitoring."""
    api, prometheus = monitoring.metrics_api, monitoring.prometheus
    check_options("monitoring.exporter", monitoring.exporter)
    if "" in monitoring.viewers:
        raise ConfigError("monitoring.viewers: '' is not allowed; use names of groups, like data-scientists")
    if api.enabled:
        check_options("monitoring.metricsApi", api)
        _check_certificate(api)
    if monitoring.board:
        check_options("monitoring.board", monitoring.board)
    if prometheus and prometheus.storage_class is not None and prometheus.storage is None:
        raise ConfigError(
            "monitoring.prometheus.storageClass: only with monitoring.prometheus.storage; set it, like 20Gi"
        )
    if prometheus and monitoring.operator:
        raise ConfigError("monitoring.prometheus: monitoring.operator is also set; keep one Prometheus")
    if api.enabled and api.custom_metrics and monitoring.adapter_rules:
        raise ConfigError(
            f"monitoring.adapterRules: monitoring.metricsApi also serves {METRICS_API_GROUP}, like "
            "prometheus-adapter; set monitoring.metricsApi.customMetrics: false, or remove adapterRules"
        )


def _check_certificate(api: MetricsApi) -> None:
    """The CA certificates of a Secret; those of the stack are written by its Job."""
    where = "monitoring.metricsApi"
    if api.tls_secret:
        check_ca(where, api)
    elif api.ca_bundle or api.inject_ca_from:
        key = "caBundle" if api.ca_bundle else "injectCaFrom"
        raise ConfigError(
            f"{where}.{key}: only for the certificate of {where}.tlsSecret; set it, or remove this"
        )


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
