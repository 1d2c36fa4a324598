"""The values of the chart: their defaults, and how each one reaches the builders.

A choice has few options, and changes which objects there are or their fields. A slot is a value that is only
inserted: the builders run with a marker in its place. Paths are those of the configuration of a stack; the
chart has one pool of nodes, ``devicePlugin``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpushare.contract import RUNBOOKS_URL

IMAGES: Final = ("extender", "device-plugin", "exporter", "isolation", "cli")
"""Names of the images that the chart uses."""
OLDEST: Final = "1.30"
"""The first version of Kubernetes that the chart supports."""
_VERSION: Final = ".Capabilities.KubeVersion.Version"


@dataclass(frozen=True)
class Choice:
    """A value with few options; each has its settings in a stack by path, and its test in a template."""

    name: str
    options: Mapping[str, Mapping[str, Any]]
    tests: Mapping[str, str]


def _flag(path: str, setting: str = "") -> Choice:
    setting = setting or path
    return Choice(
        path,
        {"true": {setting: True}, "false": {setting: False}},
        {"true": f".Values.{path}", "false": f"(not .Values.{path})"},
    )


def _part(name: str) -> Choice:
    return Choice(
        f"{name}.enabled",
        {"true": {}, "false": {name: None}},
        {"true": f".Values.{name}.enabled", "false": f"(not .Values.{name}.enabled)"},
    )


def _optional(path: str, setting: str = "") -> Choice:
    """A text; no value if it is empty."""
    return Choice(
        path,
        {"set": {setting or path: "set"}, "empty": {}},
        {"set": f".Values.{path}", "empty": f"(not .Values.{path})"},
    )


REPLICAS: Final = Choice(
    "extender.replicas",
    {each: {"extender.replicas": int(each)} for each in "123"},
    {each: f"(eq (int .Values.extender.replicas) {each})" for each in "123"},
)
TLS: Final = Choice(
    "extender.tls",
    {
        "stack": {"extender.tls": "stack"},
        "none": {"extender.tls": "none"},
        "secret": {"extender.tlsSecret": "set"},
    },
    {
        "stack": '(and (not .Values.extender.tlsSecret) (eq .Values.extender.tls "stack"))',
        "none": '(and (not .Values.extender.tlsSecret) (eq .Values.extender.tls "none"))',
        "secret": ".Values.extender.tlsSecret",
    },
)
VERSION: Final = Choice(
    "kubernetesVersion",
    {each: {"kubernetesVersion": each} for each in (OLDEST, "1.33", "1.36")},
    {
        OLDEST: f'(semverCompare "<1.33-0" {_VERSION})',
        "1.33": f'(semverCompare ">=1.33-0 <1.36-0" {_VERSION})',
        "1.36": f'(semverCompare ">=1.36-0" {_VERSION})',
    },
)
EXPOSURE: Final = Choice(
    "extender.exposure",
    {
        "node-port": {"extender.exposure": "node-port"},
        "cluster-ip": {"extender.exposure": "cluster-ip"},
        "sidecar": {"extender.exposure": "sidecar", "extender.scheduler": {"image": f"x@sha256:{'0' * 64}"}},
    },
    {each: f'(eq .Values.extender.exposure "{each}")' for each in ("node-port", "cluster-ip", "sidecar")},
)
PROMETHEUS: Final = Choice(
    "monitoring.prometheus.image",
    {"set": {"monitoring.prometheus": {"image": f"x@sha256:{'0' * 64}"}}, "empty": {}},
    {"set": ".Values.monitoring.prometheus.image", "empty": "(not .Values.monitoring.prometheus.image)"},
)
BOARD: Final = Choice(
    "monitoring.board.tlsSecret",
    {"set": {"monitoring.board": {"tlsSecret": "set"}}, "empty": {}},
    {"set": ".Values.monitoring.board.tlsSecret", "empty": "(not .Values.monitoring.board.tlsSecret)"},
)
STORAGE: Final = Choice(
    "monitoring.prometheus.storage",
    {"set": {"monitoring.prometheus.storage": "1Gi"}, "empty": {}},
    {"set": ".Values.monitoring.prometheus.storage", "empty": "(not .Values.monitoring.prometheus.storage)"},
)
ISOLATION_STATE: Final = Choice(
    "isolation.state",
    {each: {"isolation.state": each} for each in ("present", "absent")},
    {each: f'(eq .Values.isolation.state "{each}")' for each in ("present", "absent")},
)
GROUPS: Final[Mapping[str, Sequence[Choice]]] = {
    "extender": (EXPOSURE, TLS, REPLICAS, VERSION),
    "agent": (_optional("devicePlugin.runtimeClass"), _flag("devicePlugin.queryKubelet"), VERSION),
    "isolation": (_part("isolation"), ISOLATION_STATE),
    "mps": (_part("mps"), _optional("mps.runtimeClass")),
    "monitoring": (
        _part("monitoring"),
        _optional("monitoring.exporter.runtimeClass"),
        _flag("monitoring.operator"),
        _flag("monitoring.dashboards"),
        _flag("monitoring.adapterRules"),
        BOARD,
        PROMETHEUS,
        STORAGE,
    ),
    "admission": (_flag("admission"),),
}
"""The choices that change the same objects; an object depends on the choices of one group only."""

SLOTS: Final = (
    "extender.logLevel",
    "extender.cpu",
    "extender.memory",
    "extender.tlsSecret",
    "extender.scheduler.image",
    "extender.scheduler.cpu",
    "extender.scheduler.cpuLimit",
    "extender.scheduler.memory",
    "extender.scheduler.memoryLimit",
    "devicePlugin.nodeSelector",
    "devicePlugin.memoryUnit",
    "devicePlugin.deviceListStrategy",
    "devicePlugin.kubeletRoot",
    "devicePlugin.runtimeClass",
    "devicePlugin.cpu",
    "devicePlugin.memory",
    "isolation.kubeletRoot",
    "isolation.cpu",
    "isolation.memory",
    "mps.runtimeClass",
    "mps.cpu",
    "mps.memory",
    "monitoring.runbooks",
    "monitoring.exporter.kubeletRoot",
    "monitoring.exporter.runtimeClass",
    "monitoring.exporter.cpu",
    "monitoring.exporter.memory",
    "monitoring.board.tlsSecret",
    "monitoring.board.cpu",
    "monitoring.board.memory",
    "monitoring.prometheus.image",
    "monitoring.prometheus.storage",
    "monitoring.prometheus.retention",
    "monitoring.prometheus.cpu",
    "monitoring.prometheus.memory",
)
"""Paths of the values that are only inserted."""
INTEGERS: Final[tuple[str, ...]] = ()
_NUMBER: Final = 900_000_001
_MARKERS: Final = {"monitoring.runbooks": RUNBOOKS_URL}
"""Of slots that cannot have any text; the builders also parse the files with this one as YAML."""


def marker(path: str) -> str:
    """Return the text that stands for the value of a slot while the builders run."""
    return str(_NUMBER + SLOTS.index(path)) if path in INTEGERS else _MARKERS.get(path, f"@{path}@")


def image_marker(name: str) -> str:
    """Return the image that stands for the image of that name while the builders run."""
    return f"{name}@sha256:{IMAGES.index(name):064d}"


def slots() -> dict[str, str]:
    """Return the expression for each marker."""
    own = {marker(path): _slot(path) for path in SLOTS}
    return own | {
        image_marker(name): f'include "gpushare.image" (list . (index .Values.images "{name}"))'
        for name in IMAGES
    }


def _slot(path: str) -> str:
    if path == "extender.scheduler.image":
        return f'include "gpushare.image" (list . (required "{path}: missing" .Values.{path}))'
    if path == PROMETHEUS.name:
        return f'include "gpushare.image" (list . .Values.{path})'
    if path.endswith("kubeletRoot"):
        return f'trimSuffix "/" .Values.{path}'
    return f"int .Values.{path}" if path in INTEGERS else f".Values.{path}"
