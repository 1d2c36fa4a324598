"""Exporter, metrics API, board and Prometheus, and the configuration of Prometheus and Grafana.

Rules and dashboards are the files of ``components/monitoring``, unchanged but for links of alerts.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from components.config_monitoring import Monitoring
from components.manifests import board, exporter, metrics_api, prometheus, viewers
from components.manifests.parts import APP_LABEL, OPS, Object, labels, metadata
from gpushare.contract import RUNBOOK_COMMAND, SYSTEM_NAMESPACE
from gpushare.kubescheduler.config import KubernetesVersion

_FILES: Final = Path(__file__).parents[1] / "monitoring"
_ADAPTER: Final = "gpushare-adapter-rules"
_RULES: Final = ("rules.yaml", "alerts.yaml")
_SCRAPES: Final = "scrape.yaml"
_ADAPTER_RULES: Final = "adapter-rules.yaml"
_COMMAND: Final = re.compile(rf"^( *)runbook: {RUNBOOK_COMMAND} (\w+)$", re.MULTILINE)
_OPERATOR_V1: Final = "monitoring.coreos.com/v1"
_FOR_GRAFANA: Final = {"grafana_dashboard": "1"}
"""The label that the sidecar of Grafana's chart selects."""


def objects(settings: Monitoring, version: KubernetesVersion) -> list[Object]:
    """All objects of monitoring."""
    api = settings.metrics_api
    return [
        *exporter.objects(settings.exporter),
        *(metrics_api.objects(api, version) if api.enabled else []),
        *(board.objects(settings.board, version, _url(settings)) if settings.board else []),
        *_for_prometheus(settings, version),
        *(
            [_config_map(_ADAPTER, {_ADAPTER_RULES: (_FILES / _ADAPTER_RULES).read_text()})]
            if settings.adapter_rules
            else []
        ),
        *(_dashboards() if settings.dashboards else []),
        *viewers.objects(settings.viewers),
    ]


def _url(settings: Monitoring) -> str | None:
    """Where the Prometheus of the stack is, if there is one."""
    return prometheus.URL if settings.prometheus else None


def _for_prometheus(settings: Monitoring, version: KubernetesVersion) -> list[Object]:
    if settings.operator:
        return _operated(settings)
    files = {name: _rules(name, settings) for name in _RULES} | _file(_SCRAPES)
    if not settings.prometheus:
        return [_config_map(prometheus.NAME, files)]
    files[prometheus.CONFIGURATION] = prometheus.configuration(list(_RULES), files[_SCRAPES])
    return [
        _config_map(prometheus.NAME, files),
        *prometheus.objects(settings.prometheus, version, files),
    ]


def _rules(name: str, settings: Monitoring) -> str:
    """The text of a file of rules; alerts link to the page of the stack, if it names one."""
    text = (_FILES / name).read_text()
    return _linked(text, settings.runbooks) if settings.runbooks else text


def _linked(text: str, page: str) -> str:
    """The rules, with a link of each alert to its section of the page at this URL."""
    return _COMMAND.sub(lambda found: f"{found[0]}\n{found[1]}runbook_url: {page}#{found[2].lower()}", text)


def _file(name: str) -> dict[str, str]:
    return {name: (_FILES / name).read_text()}


def _config_map(name: str, data: Mapping[str, str], **marks: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, {**labels(name), **marks}),
        "data": dict(data),
    }


def _dashboards() -> list[Object]:
    return [
        _config_map(f"gpushare-dashboard-{path.stem}", {path.name: path.read_text()}, **_FOR_GRAFANA)
        for path in sorted((_FILES / "dashboards").glob("*.json"))
    ]


def _operated(settings: Monitoring) -> list[Object]:
    """All our pods use the same port name. Labels of a series override those of the target."""
    node = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
    endpoint = {"port": OPS, "path": "/metrics", "honorLabels": True, "relabelings": [node]}
    pods: Object = {
        "selector": {"matchLabels": dict(APP_LABEL)},
        "namespaceSelector": {"matchNames": [SYSTEM_NAMESPACE]},
        "podMetricsEndpoints": [endpoint],
    }
    groups = [group for name in _RULES for group in yaml.safe_load(_rules(name, settings))["groups"]]
    marks = settings.operator_labels
    return [
        _operator_object("PodMonitor", marks, pods),
        _operator_object("PrometheusRule", marks, {"groups": groups}),
    ]


def _operator_object(kind: str, marks: Mapping[str, str], spec: Object) -> Object:
    return {
        "apiVersion": _OPERATOR_V1,
        "kind": kind,
        "metadata": metadata(prometheus.NAME, {**marks, **labels(prometheus.NAME)}),
        "spec": spec,
    }
