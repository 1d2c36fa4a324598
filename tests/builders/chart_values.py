"""Values of the Helm chart, and the stack that deploys the same."""

from collections.abc import Iterator, Mapping
from typing import Any

from release.chart.build import default_values

IMAGES = {
    name: f"registry.example.com/gpushare/{name}@sha256:{number:064d}"
    for number, name in enumerate(
        ("extender", "device-plugin", "exporter", "isolation", "metrics-api", "cli", "samples")
    )
}
SCHEDULER = f"registry.k8s.io/kube-scheduler@sha256:{'f' * 64}"
PROMETHEUS = f"docker.io/prom/prometheus@sha256:{'e' * 64}"
RUNBOOKS = "https://wiki.internal:8443/gpus?page=runbooks"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "defaults": ("1.36", {}),
    "the oldest cluster": ("1.30", {"devicePlugin": {"queryKubelet": True}}),
    "a service and a certificate of another authority": (
        "1.33",
        {
            "extender": {"exposure": "cluster-ip", "replicas": 3, "tlsSecret": "own", "logLevel": "debug"},
            "devicePlugin": {"queryKubelet": True, "runtimeClass": "nvidia", "memoryUnit": "MiB"},
        },
    ),
    "sidecars": (
        "1.36",
        {"extender": {"exposure": "sidecar", "replicas": 2, "scheduler": {"image": SCHEDULER, "cpu": "1"}}},
    ),
    "one sidecar that warns": (
        "1.30",
        {"extender": {"exposure": "sidecar", "scheduler": {"image": SCHEDULER}}, "admission": False},
    ),
    "plain HTTP, a mirror and pull secrets": (
        "1.36",
        {
            "registry": "mirror.example.com:5000/gpus",
            "imagePullSecrets": ["pull", "another"],
            "extender": {"tls": "none", "cpu": "2"},
        },
    ),
    "the Prometheus Operator, and MPS": (
        "1.36",
        {
            "mps": {"enabled": True, "runtimeClass": "nvidia", "memory": "4Gi"},
            "isolation": {"kubeletRoot": "/data/kubelet/"},
            "monitoring": {
                "operator": True,
                "runbooks": RUNBOOKS,
                "adapterRules": True,
                "dashboards": False,
                "board": {"tlsSecret": "gpushare-board", "memory": "1Gi"},
                "exporter": {"intervalSeconds": 5, "runtimeClass": "nvidia", "kubeletRoot": "/data/kubelet"},
            },
        },
    ),
    "a Prometheus with a volume": (
        "1.36",
        {
            "monitoring": {
                "runbooks": RUNBOOKS,
                "prometheus": {"image": PROMETHEUS, "storage": "20Gi", "retention": "30d"},
            }
        },
    ),
    "a Prometheus without a volume": ("1.36", {"monitoring": {"prometheus": {"image": PROMETHEUS}}}),
    "own taints on nodes with GPUs": (
        "1.36",
        {
            "mps": {"enabled": True},
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "example.com/pool", "operator": "Equal", "value": "gpus"},
                {"operator": "Exists", "effect": "NoExecute"},
            ],
        },
    ),
    "the library is removed from the nodes": ("1.36", {"isolation": {"state": "absent"}}),
    "the extender and the agents only": (
        "1.36",
        {
            "admission": False,
            "isolation": {"enabled": False},
            "monitoring": {"enabled": False},
            "devicePlugin": {
                "nodeSelector": {"gpushare": None, "ack.node.gpu.schedule": "share", "example.com/pool": "a"},
                "deviceListStrategy": "cdi",
            },
        },
    ),
}
"""Version of the cluster and values, by what they have in common."""


def stack_of(version: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a stack that deploys the same as the chart with these values."""
    values = _merged(default_values(IMAGES), changes)
    raw = {
        key: _without_empty(each)
        for key, each in values.items()
        if key not in ("devicePlugin", "tolerations")
    }
    for part in ("isolation", "mps", "monitoring"):
        if not raw[part].pop("enabled"):
            del raw[part]
    if raw["extender"]["exposure"] != "sidecar":
        del raw["extender"]["scheduler"]
    if "monitoring" in raw and "image" not in raw["monitoring"]["prometheus"]:
        del raw["monitoring"]["prometheus"]
    if "monitoring" in raw and "tlsSecret" not in raw["monitoring"]["board"]:
        del raw["monitoring"]["board"]
    if "tlsSecret" in raw["extender"]:
        del raw["extender"]["tls"]
    raw["devicePlugins"] = [_without_empty(values["devicePlugin"])]
    for workload in _on_nodes_with_gpus(raw):
        workload["tolerations"] = values["tolerations"]
    return {"kubernetesVersion": version, **raw}


def _on_nodes_with_gpus(raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from raw["devicePlugins"]
    yield from (raw[part] for part in ("isolation", "mps") if part in raw)
    if "monitoring" in raw:
        yield raw["monitoring"]["exporter"]


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**values, **changes}
    for key, each in changes.items():
        if isinstance(each, dict):
            merged[key] = _merged(values[key], each)
    return {key: each for key, each in merged.items() if each is not None}


def _without_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_empty(each) for key, each in value.items() if each not in ("", [])}
