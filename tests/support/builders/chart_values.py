"""The values of the chart that deploy the same as a stack.

What belongs here: what the chart names differently, and what it lacks. What does not: stacks to compare
(``tests.support.builders.settings_alone``), and running Helm (``tests.support.fixtures.helm``).
"""

from collections.abc import Mapping
from typing import Any, Final

from components import config, config_monitoring

NAMES: Final = (
    "extender",
    "device-plugin",
    "exporter",
    "isolation",
    "metrics-api",
    "cli",
    "samples",
    "prometheus",
)
IMAGES: Final = {
    name: f"registry.example.com/gpushare/{name}@sha256:{number:064d}" for number, name in enumerate(NAMES)
}
OTHER_IMAGE: Final = f"example.com/other@sha256:{'d' * 64}"
SCHEDULER: Final = f"registry.k8s.io/kube-scheduler@sha256:{'f' * 64}"
CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
RUNBOOKS: Final = "https://wiki.internal:8443/gpus?page=runbooks"
OLDEST: Final = "1.30"
"""The oldest version of Kubernetes for the chart."""

NOT_IN_CHART: Final[Mapping[str, str]] = {
    "kubernetesVersion": "Helm asks the cluster",
    "nodePools": "Helm would delete the Node objects with the release",
    "kubeconfig": "Helm has its own access to the cluster",
    "context": "Helm has its own access to the cluster",
    "clusterUid": "Helm has its own access to the cluster",
    "adopt": "Helm has --take-ownership",
}
"""Keys of a stack that are no values of the chart, each with the reason."""
RENAMED: Final[Mapping[str, str]] = {
    "priorityClass": "priorityClassName",
    "runtimeClass": "runtimeClassName",
    "labels": "commonLabels",
    "annotations": "commonAnnotations",
    "devicePlugins": "devicePlugin.pools",
    "cpu": "resources",
    "cpuLimit": "resources",
    "memory": "resources",
    "memoryLimit": "resources",
}
"""Keys of a stack, and the values for which Helm users look instead."""
_SIZES: Final = [key for key, name in RENAMED.items() if name == "resources"]
_BOTH: Final = ("requests", "limits")
_SIZES_OF: Final = {"scheduler": ("requests",)}
"""What ``cpu`` and ``memory`` of a section are, if not both; it has other limits."""
_IMAGE_KEYS: Final = ("image", "certificatesImage")
_SECTIONS: Final = ("extender", "scheduler", "exporter")
_OPTIONAL: Final = (
    "installer",
    "isolation",
    "mps",
    "monitoring",
    "networkPolicies",
    "webhook",
    "metricsApi",
    "board",
    "prometheus",
)
"""Sections that a stack may leave out; in the chart they have ``enabled``."""
_DEPLOYED: Final = ("isolation", "monitoring")
"""Those that the chart has by default."""
_DEFAULT_MAPS: Final[Mapping[str, Mapping[str, str]]] = {
    "nodeSelector": config.SHARED_NODES,
    "operatorLabels": config_monitoring.Monitoring().operator_labels,
}
"""Mappings that a stack replaces, and to which Helm adds."""


def without_others(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The stack without the keys that the chart lacks, for a version that the chart supports."""
    version = max(raw["kubernetesVersion"], OLDEST)
    return {key: each for key, each in raw.items() if key not in NOT_IN_CHART} | {
        "kubernetesVersion": version
    }


def values_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the chart that deploy the same as the stack."""
    values: dict[str, Any] = {name: {"enabled": False} for name in _DEPLOYED}
    own = {key: each for key, each in raw.items() if key not in (*NOT_IN_CHART, "devicePlugins")}
    values |= _section(own)
    pools = [_section(each) for each in raw.get("devicePlugins", [])]
    # The selector of an entry of `pools` replaces the default one; that of the section is added to it.
    one = pools[0] if len(pools) == 1 else {"pools": _without_null(pools)}
    return values | {"devicePlugin": {"enabled": bool(pools), **one}}


def _section(raw: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, each in raw.items():
        if key in _SIZES:
            for kind in ("limits",) if key.endswith("Limit") else _SIZES_OF.get(section, _BOTH):
                values.setdefault("resources", {}).setdefault(kind, {})[key.removesuffix("Limit")] = each
        else:
            values[RENAMED.get(key, key)] = _value(key, each)
    return values


def _without_null(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_null(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_null(each) for key, each in value.items() if each is not None}
    return value


def _value(key: str, value: Any) -> Any:
    if key in _IMAGE_KEYS:
        return image_of(value)
    if key == "imagePullSecrets":
        return [{"name": each} for each in value]
    if key in _OPTIONAL:
        return {"enabled": True, **_section(value)}
    if key in _DEFAULT_MAPS:
        return dict.fromkeys(_DEFAULT_MAPS[key]) | value
    return _section(value, key) if key in _SECTIONS else value


def image_of(image: str) -> dict[str, str]:
    """The image as the chart has it."""
    named, _, digest = image.partition("@")
    name, _, tag = named.rpartition(":") if ":" in named.rpartition("/")[2] else (named, "", "")
    return {"repository": name, "tag": tag, "digest": digest}
