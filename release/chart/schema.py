"""Which fields of a stack are values of the chart, and the JSON schema of the values. Pure."""

import re
from collections.abc import Mapping
from enum import StrEnum
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from components import config
from components.forms import (
    CPU,
    DIGEST,
    DURATION,
    LABEL_KEY,
    LABEL_VALUE,
    MEMORY,
    NAME,
    PATH,
    REGISTRY,
    STORAGE,
)
from components.manifests.parts import Object
from gpushare.model.names import LONGEST, SUBDOMAIN
from release.chart.values import IMAGES

KEYS: Final[Mapping[type[Any], tuple[str, ...]]] = {
    config.Extender: ("replicas", "exposure", "tls", "tls_secret", "log_level", "cpu", "memory"),
    config.Scheduler: ("cpu", "cpu_limit", "memory", "memory_limit"),
    config.DevicePlugin: (
        "node_selector",
        "memory_unit",
        "device_list_strategy",
        "kubelet_root",
        "query_kubelet",
        "runtime_class",
        "cpu",
        "memory",
    ),
    config.Isolation: ("state", "kubelet_root", "cpu", "memory"),
    config.Mps: ("runtime_class", "cpu", "memory"),
    config.Monitoring: ("operator", "runbooks", "dashboards", "adapter_rules"),
    config.Exporter: ("kubelet_root", "runtime_class", "cpu", "memory"),
    config.Board: ("tls_secret", "cpu", "memory"),
    config.Prometheus: ("storage", "retention", "cpu", "memory"),
}
"""The fields of each part that are values of the chart."""
SECTIONS: Final[Mapping[str, type[Any]]] = {
    "": config.ClusterSettings,
    "extender": config.Extender,
    "extender.scheduler": config.Scheduler,
    "devicePlugin": config.DevicePlugin,
    "isolation": config.Isolation,
    "mps": config.Mps,
    "monitoring": config.Monitoring,
    "monitoring.exporter": config.Exporter,
    "monitoring.board": config.Board,
    "monitoring.prometheus": config.Prometheus,
}
OWN_IMAGES: Final = {
    "extender.scheduler": "The image of kube-scheduler with digest, in the version of the cluster; required "
    "with sidecar.",
    "monitoring.prometheus": "The image of Prometheus with digest, 2.42 or later; empty for none.",
}
"""Images that are not in ``images``, because they are not of this project."""
_LIMITS: Final = {
    (config.Extender, "replicas"): (1, 3),
}
"""The lowest and the highest value of each integer."""
_URL: Final = r"^https?://(\[[0-9A-Fa-f:.]+\]|[^\p{Z}\p{C}/?#:\[\]]+)(:[0-9]*)?([/?#][^\p{Z}\p{C}]*)?$"
"""As ``is_http_url``: no separators, and nothing that cannot be printed."""


def _text(form: re.Pattern[str]) -> Object:
    return {"type": "string", "pattern": f"^({form.pattern})$"}


def _text_or_none(form: re.Pattern[str]) -> Object:
    """As ``_text``, or empty, which is no value."""
    return {"type": "string", "pattern": f"^({form.pattern})?$"}


_OBJECT: Final = {"maxLength": LONGEST}
"""In addition to the pattern of the name of an object."""
_FORMS: Final[Mapping[str, Object]] = {
    "runbooks": {"type": "string", "pattern": _URL},
    "cpu": _text(CPU),
    "cpu_limit": _text(CPU),
    "memory": _text(MEMORY),
    "memory_limit": _text(MEMORY),
    "storage": _text_or_none(STORAGE),
    "retention": _text(DURATION),
    "kubelet_root": _text(PATH),
    "tls_secret": _text_or_none(NAME),
    "runtime_class": _text_or_none(SUBDOMAIN) | _OBJECT,
}
"""What a text of this name must match."""


def schema() -> Object:
    """Return the JSON schema of the values: types, options, and no unknown keys."""
    images = _closed(dict.fromkeys(IMAGES, _text(DIGEST))) | {"required": list(IMAGES)}
    top = {
        "images": images,
        "registry": _text_or_none(REGISTRY),
        "imagePullSecrets": {"type": "array", "items": _text(SUBDOMAIN) | _OBJECT},
        "admission": {"type": "boolean"},
        "tolerations": {"type": "array", "items": _toleration()},
        "global": {"type": "object"},
    }
    sections: dict[str, Object] = {"": {"properties": top}}
    for path, kind in SECTIONS.items():
        if path:
            parent, _, key = path.rpartition(".")
            properties = {camel(name): _type(kind, name) for name in KEYS[kind]}
            extra = {"image": _text_or_none(DIGEST)} if path in OWN_IMAGES else {}
            extra |= {"enabled": {"type": "boolean"}} if path in ("isolation", "mps", "monitoring") else {}
            sections[path] = _closed(extra | properties)
            sections[parent]["properties"][key] = sections[path]
            sections[parent].setdefault("required", []).append(key)  # null in a file of values removes it
    required = sections[""]["required"]
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_closed(top), "required": required}


def _closed(properties: Object) -> Object:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _type(kind: type[Any], name: str) -> Object:
    if limits := _LIMITS.get((kind, name)):
        return {"type": "integer", "minimum": limits[0], "maximum": limits[1]}
    if form := _FORMS.get(name):
        return form
    hint = get_type_hints(kind)[name]
    if get_origin(hint) in (Union, UnionType):
        hint = get_args(hint)[0]
    if get_origin(hint) is Mapping:
        return _labels() | {"minProperties": 1}
    if issubclass(hint, StrEnum):
        return _option(hint)
    return {"type": {str: "string", int: "integer", bool: "boolean"}[hint]}


def _option(kind: type[StrEnum]) -> Object:
    """As a pattern, because Helm then also shows the value that is wrong."""
    return {"type": "string", "pattern": f"^({'|'.join(kind)})$"}


def _labels() -> Object:
    return {
        "type": "object",
        "patternProperties": {f"^({LABEL_KEY.pattern})$": _text_or_none(LABEL_VALUE)},
        "additionalProperties": False,
    }


def _toleration() -> Object:
    """Any taint, or one with this key; without ``operator`` it is ``Equal``."""
    properties = {
        "key": _text_or_none(LABEL_KEY),
        "operator": _option(config.Operator),
        "value": _text_or_none(LABEL_VALUE),
        "effect": _option(config.Effect),
    }
    exists = {"required": ["operator"], "properties": {"operator": {"const": str(config.Operator.EXISTS)}}}
    without_value = {"properties": {"value": {"pattern": "^$"}}}
    with_key = {"required": ["key"], "properties": {"key": {"minLength": 1}}}
    return _closed(properties) | {"if": exists, "then": without_value, "else": with_key}


def camel(snake: str) -> str:
    """Return the name of a value: ``camelCase`` of a field's ``snake_case``."""
    head, *tail = snake.split("_")
    return head + "".join(each.capitalize() for each in tail)
