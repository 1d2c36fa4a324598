"""Checks of monitoring, and of servers that the API server calls. Part of ``components.checks``."""

from typing import Final

from components.config import (
    Board,
    Exporter,
    MetricsApi,
    Monitoring,
    Prometheus,
    Webhook,
)
from components.forms import (
    MAX_REPLICAS,
    check_any_label,
    check_labels,
    check_name,
    check_namespaced,
    check_object,
    check_path,
    check_range,
    check_retention,
    check_size,
    check_storage,
    check_url,
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
    _check_exporter(f"{where}.exporter", monitoring.exporter)
    check_labels(f"{where}.operatorLabels", monitoring.operator_labels)
    check_url(f"{where}.runbooks", monitoring.runbooks)
    if "" in monitoring.viewers:
        raise ConfigError(f"{where}.viewers: '' is not allowed; use names of groups, like data-scientists")
    if monitoring.metrics_api:
        _check_metrics_api(f"{where}.metricsApi", monitoring.metrics_api)
    if monitoring.board:
        _check_board(f"{where}.board", monitoring.board)
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
    check_size(where, prometheus.cpu, prometheus.memory)
    check_retention(f"{where}.retention", prometheus.retention)
    if prometheus.storage is not None:
        check_storage(f"{where}.storage", prometheus.storage)
    if prometheus.storage_class is not None:
        check_object(f"{where}.storageClass", prometheus.storage_class)
        if prometheus.storage is None:
            raise ConfigError(f"{where}.storageClass: only with {where}.storage; set it, like 20Gi")


def _check_board(where: str, board: Board) -> None:
    check_size(where, board.cpu, board.memory)
    check_options(where, board)
    check_name(f"{where}.tlsSecret", board.tls_secret)


def _check_metrics_api(where: str, api: MetricsApi) -> None:
    check_size(where, api.cpu, api.memory)
    check_options(where, api)
    check_name(f"{where}.tlsSecret", api.tls_secret)
    check_ca(where, api)
    check_range(f"{where}.replicas", api.replicas, 1, MAX_REPLICAS)


def _check_exporter(where: str, exporter: Exporter) -> None:
    check_size(where, exporter.cpu, exporter.memory)
    check_options(where, exporter)
    check_any_label(f"{where}.nodeLabels", exporter.node_labels)
    check_path(f"{where}.kubeletRoot", exporter.kubelet_root)
    if exporter.driver_root is not None:
        check_path(f"{where}.driverRoot", exporter.driver_root)
    if exporter.runtime_class is not None:
        check_object(f"{where}.runtimeClass", exporter.runtime_class)


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
