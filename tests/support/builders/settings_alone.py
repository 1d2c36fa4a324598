"""Every setting of a stack with another value alone, for a comparison of what deploys it.

What belongs here: the values, and what a setting needs to have an effect.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from enum import StrEnum
from itertools import accumulate
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import click

from components import config
from components.decode import spelled
from components.options import option_of
from tests.support.builders.chart_values import (
    CERTIFICATE,
    IMAGES,
    NOT_IN_CHART,
    OTHER_IMAGE,
    RUNBOOKS,
    SCHEDULER,
)

_TOLERATION: Final = {"key": "example.com/pool", "operator": "Equal", "value": "a", "effect": "NoExecute"}
_SAMPLES: Final[Mapping[str, Any]] = {
    "image": OTHER_IMAGE,
    "certificatesImage": OTHER_IMAGE,
    "images": IMAGES | {"extender": OTHER_IMAGE},
    "name": "1e1",
    "registry": "mirror.example.com:5000/gpus",
    "imagePullSecrets": ["pull", "another"],
    "labels": {"example.com/team": "1"},
    "annotations": {"example.com/owner": "team-ml"},
    "nodeSelector": {"cgpu": "true", "example.com/card": "4"},
    "nodeLabels": ["example.com/card=4", "1"],
    "tolerations": [_TOLERATION, {"operator": "Exists", "effect": "NoSchedule"}],
    "operatorLabels": {"example.com/prometheus": "main"},
    "priorityClass": "1",
    "runtimeClass": "0x1",
    "maxUnavailable": "2",
    "cpu": "350m",
    "memory": "3Gi",
    "cpuLimit": "8",
    "memoryLimit": "8Gi",
    "kubeletRoot": "/data: {1}/kubelet/",
    "folder": "/home: {1}/bin/gpushare",
    "kubeconfig": "/etc/kubernetes/kubelet.conf",
    "driverRoot": "/run/nvidia: {driver}",
    "cdiFolders": ["/var/cdi: {static}", "/run/cdi"],
    "storage": "20Gi",
    "storageClass": "1",
    "retention": "30d",
    "prometheusUrl": "http://prometheus.monitoring:9090",
    "prometheusCluster": "1",
    "runbooks": RUNBOOKS,
    "url": "https://10.0.0.10:32766/gpushare-scheduler",
    "tlsSecret": "1",
    "clientNames": ["system:kube-scheduler", "gpushare-schd-extender"],
    "caBundle": CERTIFICATE + CERTIFICATE,
    "injectCaFrom": "kube-system/own",
    "viewers": ["1", "oidc:ml"],
    "controlPlane": ["192.0.2.0/28", "2001:db8::/64"],
    "monitoringNamespaces": ["1"],
    "boardNamespaces": ["1"],
    "replicas": 3,
    "extraArgs": ["--v=4", "--x"],
    "ignoredXids": "31,43",
    "kubeletAddress": "192.0.2.1",
}
"""A value by the name of a key, none of them the default; many that YAML reads as numbers without quotes."""
_NUMBER: Final = 1_000_000
_WITH_TLS: Final = {"tlsSecret": "tls", "caBundle": CERTIFICATE}
_NODE_PORT: Final = {"exposure": "node-port"}
_AROUND: Final[Mapping[str, Mapping[str, Any]]] = {
    "installer": {"extender": _NODE_PORT, "installer": {}},
    "extender.scheduler": {"extender": {"exposure": "sidecar", "scheduler": {"image": SCHEDULER}}},
    "extender.scheduler.webhook": {
        "kubernetesVersion": "1.33",
        "extender": {"exposure": "sidecar", "scheduler": {"image": SCHEDULER, "webhook": _WITH_TLS}},
    },
    "monitoring.metricsApi": {"monitoring": {"metricsApi": _WITH_TLS}},
    "monitoring.board": {"monitoring": {"board": {"tlsSecret": "tls"}}},
    "monitoring.prometheus": {"monitoring": {"prometheus": {}}},
    "tenants": {"tenants": [{"name": "team-a", "gpuMem": 32}]},
    "networkPolicies": {
        "networkPolicies": {"controlPlane": ["10.0.0.0/28"]},
        "extender": {"exposure": "cluster-ip"},
    },
    "mps": {"mps": {}},
}
"""The smallest stack that has a section."""
_BESIDE: Final[Mapping[str, Mapping[str, Any]]] = {
    "extender.tls": {"extender": _NODE_PORT},
    "extender.certificatesImage": {"extender": _NODE_PORT},
    "extender.tlsSecret": {"extender": _NODE_PORT},
    "extender.clientNames": {"extender": {**_NODE_PORT, "tlsSecret": "own"}},
    "extender.scheduler.setSchedulerName": {"kubernetesVersion": "1.33"},
    "monitoring.operatorLabels": {"monitoring": {"operator": True}},
    "monitoring.prometheus.storageClass": {"monitoring": {"prometheus": {"storage": "20Gi"}}},
    "networkPolicies.boardNamespaces": {"monitoring": {"board": {"tlsSecret": "tls"}}},
    "extender.scheduler.webhook.injectCaFrom": {"extender": {"scheduler": {"webhook": {"caBundle": ""}}}},
    "monitoring.metricsApi.certificatesImage": {
        "monitoring": {"metricsApi": {"tlsSecret": None, "caBundle": ""}}
    },
    "monitoring.metricsApi.injectCaFrom": {"monitoring": {"metricsApi": {"caBundle": ""}}},
    "allowTags": {"extender": {"image": "example.com/extender:v1"}},
    "devicePlugins.nodeSelector": {"isolation": {}},
}
"""What a setting needs to have an effect."""
_BASE: Final[Mapping[str, Any]] = {
    "kubernetesVersion": "1.36",
    "images": IMAGES,
    "extender": {},
    "devicePlugins": [{}],
    "isolation": {},
    "monitoring": {},
}


def around(path: str) -> dict[str, Any]:
    """A stack in which the setting is the default, but has an effect."""
    stack: dict[str, Any] = dict(_BASE)
    for found in accumulate(path.split("."), "{}.{}".format):
        stack = merged(stack, _AROUND.get(found, {}))
        stack = merged(stack, _BESIDE.get(found, {}))
    return stack


def alone(kind: type[Any] = config.Stack, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every setting with a value that is not its default: its name, and the stack."""
    for each in fields(kind):
        key = f"{path}.{spelled(each.name)}".strip(".")
        own = _plain(get_type_hints(kind)[each.name])
        if key.partition(".")[0] in NOT_IN_CHART:
            continue
        if is_dataclass(own) and spelled(each.name) not in _SAMPLES:
            yield from alone(own, key)  # type: ignore[arg-type]
        else:
            for value in _others(spelled(each.name), own, each):
                yield _named(key, own, value), with_setting(key, value)


def with_setting(path: str, value: Any) -> dict[str, Any]:
    """The stack in which only this setting has another value."""
    stack = merged(around(path), _BESIDE.get(f"{path}.{value}", {}))
    *parents, last = path.split(".")
    return merged(stack, _nested([*parents, last], value))


def _named(path: str, kind: Any, value: Any) -> str:
    return f"{path}.{value}" if issubclass(kind, StrEnum | bool) else path


def _nested(keys: list[str], value: Any) -> dict[str, Any]:
    head, *rest = keys
    inside = _nested(rest, value) if rest else value
    return {head: [inside] if rest and head in ("devicePlugins", "tenants") else inside}


def _plain(kind: Any) -> Any:
    """The class of a setting, of an element of a list for records; without ``| None``."""
    if get_origin(kind) in (Union, UnionType):
        kind = get_args(kind)[0]
    if get_origin(kind) is tuple and is_dataclass(get_args(kind)[0]):
        return get_args(kind)[0]
    return get_origin(kind) or kind


def _others(key: str, kind: Any, each: Field[Any]) -> list[Any]:
    option = option_of(each)
    default = option.default if option else each.default
    if key in _SAMPLES:
        return [_SAMPLES[key]]
    if option and isinstance(option.type, click.Choice):
        return [str(other) for other in option.type.choices if other != default]
    if issubclass(kind, StrEnum):
        return [str(other) for other in kind if other is not default]
    if kind is bool:
        return [not default]
    if kind in (int, float):
        return [default + 1 if isinstance(default, int | float) else _NUMBER]
    raise KeyError(f"no value of another kind for {key}: add it to _SAMPLES")


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The second over the first; lists of sections by element."""
    result = dict(first)
    for key, each in second.items():
        old = result.get(key)
        if isinstance(each, Mapping) and isinstance(old, Mapping) and key not in _SAMPLES:
            result[key] = merged(old, each)
        elif key in ("devicePlugins", "tenants") and old:
            result[key] = [merged(old[0], each[0])]
        else:
            result[key] = each
    return result
