"""Exporter and metrics API, and the configuration of Prometheus and Grafana.

Rules and dashboards are the files of ``components/monitoring``, unchanged.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from components.config import Monitoring
from components.manifests import exporter, metrics_api
from components.manifests.parts import APP_LABEL, OPS, Object, labels, metadata
from gpushare.contract import SYSTEM_NAMESPACE
from gpushare.kubescheduler.config import KubernetesVersion

_FILES: Final = Path(__file__).parents[1] / "monitoring"
_PROMETHEUS: Final = "gpushare-prometheus"
_ADAPTER: Final = "gpushare-adapter-rules"
_RULES: Final = ("rules.yaml", "alerts.yaml")
_SCRAPES: Final = "scrape.yaml"
_OPERATOR_V1: Final = "monitoring.coreos.com/v1"
_FOR_GRAFANA: Final = {"grafana_dashboard": "1"}
"""The label that the sidecar of Grafana's chart selects."""


def objects(settings: Monitoring, version: KubernetesVersion) -> list[Object]:
    """All objects of monitoring."""
    api = settings.metrics_api
    return [
        *exporter.objects(settings.exporter),
        *(metrics_api.objects(api, version) if api else []),
        *_for_prometheus(settings),
        *([_config_map(_ADAPTER, "adapter-rules.yaml")] if settings.adapter_rules else []),
        *(_dashboards() if settings.dashboards else []),
    ]


def _for_prometheus(settings: Monitoring) -> list[Object]:
    if settings.operator:
        return _operated(settings.operator_labels)
    return [_config_map(_PROMETHEUS, *_RULES, _SCRAPES)]


def _config_map(name: str, *files: str, **marks: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, {**labels(name), **marks}),
        "data": {Path(file).name: (_FILES / file).read_text() for file in files},
    }


def _dashboards() -> list[Object]:
    names = sorted(path.name for path in (_FILES / "dashboards").glob("*.json"))
    return [
        _config_map(f"gpushare-dashboard-{Path(name).stem}", f"dashboards/{name}", **_FOR_GRAFANA)
        for name in names
    ]


def _operated(marks: Mapping[str, str]) -> list[Object]:
    """All our pods use the same port name. Labels of a series override those of the target."""
    endpoint = {"port": OPS, "path": "/metrics", "honorLabels": True}
    pods: Object = {
        "selector": {"matchLabels": dict(APP_LABEL)},
        "namespaceSelector": {"matchNames": [SYSTEM_NAMESPACE]},
        "podMetricsEndpoints": [endpoint],
    }
    groups = [group for name in _RULES for group in _read(name)["groups"]]
    return [
        _operator_object("PodMonitor", marks, pods),
        _operator_object("PrometheusRule", marks, {"groups": groups}),
    ]


def _operator_object(kind: str, marks: Mapping[str, str], spec: Object) -> Object:
    return {
        "apiVersion": _OPERATOR_V1,
        "kind": kind,
        "metadata": metadata(_PROMETHEUS, {**marks, **labels(_PROMETHEUS)}),
        "spec": spec,
    }


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((_FILES / name).read_text())
    return content
