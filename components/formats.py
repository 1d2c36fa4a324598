"""Format of single values: images, names, labels, sizes; and the types of the keys that have them.

Errors name the key, the value and the fix. What does not belong here: checks of several values
(``components.checks``).
"""

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final

from components.config_pods import Effect, Operator, Toleration
from gpushare.contract import LABEL_CGPU, LABEL_GPUSHARE, LABEL_MODE
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.model.names import is_object_name
from gpushare.model.quantity import parse_quantity
from gpushare.model.urls import is_http_url

MODE_LABELS: Final = (LABEL_GPUSHARE, LABEL_CGPU, LABEL_MODE)
_MAX_NAME: Final = 63
_MAX_REPLICAS: Final = 10
"""Of servers that the API server calls: far more than their load needs, and far less than a typing error."""

DIGEST: Final = re.compile(r"[!-?A-~]+@sha256:[0-9a-f]{64}")
"""Any printable characters of ASCII except ``@`` are the name."""
_TAG: Final = re.compile(r"[^\s@]+:(?!latest$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_PORT: Final = (
    "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"  # to 65535
)
REGISTRY: Final = re.compile(rf"[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:({_PORT}))?(/[a-z0-9][-a-z0-9._]*)*")
PATH: Final = re.compile(r"(/(\.?[^./][^/]*|\.\.[^/]+|\.)?)+")
"""An absolute path without the part ``..``, which Kubernetes refuses."""
CPU: Final = re.compile(r"[1-9][0-9]*m?|[0-9]+\.[0-9]*[1-9]")
MEMORY: Final = re.compile(r"[1-9][0-9]*(Ki|Mi|Gi)")
STORAGE: Final = re.compile(r"[1-9][0-9]*(Mi|Gi|Ti)")
DURATION: Final = re.compile(r"[1-9][0-9]{0,4}[hdw]|[1-9][0-9]?y")
NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_KEY: Final = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{LABEL_VALUE.pattern}")
_TAINT: Final = re.compile(rf"[A-Za-z0-9][-A-Za-z0-9_./]*(=[-A-Za-z0-9_.]*)?:({'|'.join(Effect)})")
_COUNT: Final = re.compile(r"[1-9][0-9]{0,4}|([1-9][0-9]?|100)%")


def check_image(where: str, image: str, *, tags: bool) -> None:
    """An image with a digest, or if ``tags`` are allowed, with any tag except latest."""
    if DIGEST.fullmatch(image) or (tags and _TAG.fullmatch(image)):
        return
    if tags:
        raise ConfigError(f"{where}: {image!r} has no digest and no tag other than latest")
    raise ConfigError(f"{where}: {image!r} has no digest (name@sha256:…); allowTags: true allows tags")


def check_name(where: str, name: str, *, longest: int = _MAX_NAME) -> None:
    """The name of a namespace, or a part of another name."""
    if len(name) > longest or not NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: {name!r} is not a name; use up to {longest} lower case letters, digits and '-'"
        )


def check_namespaced(where: str, name: str) -> None:
    """The namespace and name of an object."""
    namespace, slash, own = name.partition("/")
    if not slash or not NAME.fullmatch(namespace) or not is_object_name(own):
        raise ConfigError(f"{where}: {name!r} is not an object; use namespace/name")


def check_addresses(where: str, text: str) -> None:
    """A range of IP addresses, with the length of its prefix."""
    try:
        ipaddress.ip_network(text)
        has_length = text.partition("/")[2].isdecimal()
    except ValueError:
        has_length = False
    if not has_length:
        raise ConfigError(f"{where}: {text!r} is not a range of addresses; use one like 10.0.0.0/28")


def check_url(where: str, url: str) -> None:
    """The address of an HTTP service or page."""
    if not is_http_url(url):
        raise ConfigError(f"{where}: {url!r} is not a URL; use http:// or https://")


def check_object(where: str, name: str) -> None:
    """The name of a node, a Secret, a StorageClass or a RuntimeClass."""
    if not is_object_name(name):
        raise ConfigError(
            f"{where}: {name!r} is not an object name; use lower case letters, digits, '-' and '.'"
        )


def check_labels(where: str, labels: Mapping[str, str]) -> None:
    """Valid node labels, with at most one mode label."""
    for key, value in labels.items():
        check_key(where, key)
        check_label_value(f"{where}.{key}", value)
    modes = [f"{label}={labels[label]}" for label in modes_in(labels)]
    if len(modes) > 1:
        raise ConfigError(f"{where}: two mode labels, {' and '.join(modes)}; keep one")


def check_label_value(where: str, value: str) -> None:
    """The value of a label or a taint, which may be empty."""
    if value and not LABEL_VALUE.fullmatch(value):
        raise ConfigError(
            f"{where}: {value!r} is not a label value; "
            f"use up to {_MAX_NAME} letters, digits, '-', '_' and '.'"
        )


def check_key(where: str, key: str) -> None:
    """The key of a label or an annotation."""
    if not LABEL_KEY.fullmatch(key):
        raise ConfigError(f"{where}: {key!r} is not a label; use names like example.com/pool")


def check_any_label(where: str, labels: Sequence[str]) -> None:
    """A list of labels, ``key`` or ``key=value``."""
    if not labels:
        raise ConfigError(f"{where}: empty; list labels of nodes with GPUs")
    for index, text in enumerate(labels):
        key, _, value = text.partition("=")
        check_labels(f"{where}[{index}]", {key: value})


def modes_in(labels: Mapping[str, str]) -> list[str]:
    """The mode labels in ``labels``."""
    return [label for label in MODE_LABELS if label in labels]


def taint_from(text: str) -> dict[str, str]:
    """The taint in the fields of Kubernetes, from ``key=value:Effect``."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


def between(lowest: int, highest: int) -> Callable[[str, int], None]:
    """The check of an integer within limits."""

    def check(where: str, number: int) -> None:
        if not lowest <= number <= highest:
            raise ConfigError(f"{where}: {number} is not allowed; use {lowest} to {highest}")

    return check


def matching(pattern: re.Pattern[str], refusal: str) -> Callable[[str, str], None]:
    """The check of a text by a regular expression; ``refusal`` follows the text in the error."""

    def check(where: str, text: str) -> None:
        if not pattern.fullmatch(text):
            raise ConfigError(f"{where}: {text!r} {refusal}")

    return check


def check_limits(where: str, requests: tuple[str, str], limits: tuple[str, str]) -> None:
    """Limits of CPU and memory that are not less than the requests."""
    cpu, memory = limits
    if _millicores(cpu) < _millicores(requests[0]):
        raise ConfigError(f"{where}.cpuLimit: {cpu!r} is less than {where}.cpu, {requests[0]!r}")
    if parse_quantity(memory) < parse_quantity(requests[1]):
        raise ConfigError(f"{where}.memoryLimit: {memory!r} is less than {where}.memory, {requests[1]!r}")


def _millicores(cpu: str) -> float:
    return float(cpu.removesuffix("m")) * (1 if cpu.endswith("m") else 1000)


def check_unique(where: str, names: list[str]) -> None:
    """Unique names."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ConfigError(f"{where}[{index}].name: {name!r} is used twice; use unique names")


def check_since(where: str, version: KubernetesVersion, first: KubernetesVersion) -> None:
    """A feature that older clusters do not support."""
    if version < first:
        raise ConfigError(f"{where} needs Kubernetes {first} or later, kubernetesVersion is {version}")


def check_toleration(where: str, toleration: Toleration) -> None:
    """A toleration that Kubernetes accepts."""
    if toleration.key:
        check_key(f"{where}.key", toleration.key)
    elif toleration.operator is Operator.EQUAL:
        raise ConfigError(f"{where}.key: missing; set it, or operator: {Operator.EXISTS} for every taint")
    check_label_value(f"{where}.value", toleration.value)
    if toleration.value and toleration.operator is Operator.EXISTS:
        raise ConfigError(
            f"{where}.value: {toleration.value!r} is not allowed with operator {Operator.EXISTS}; remove one"
        )


check_registry = matching(REGISTRY, "is not a registry; use one like example.com:5000/mirror")
Name = Annotated[str, check_name]
ObjectName = Annotated[str, check_object]
NodePath = Annotated[str, matching(PATH, "must be absolute and without '..'")]
Url = Annotated[str, check_url]
Addresses = Annotated[str, check_addresses]
Labels = Annotated[Mapping[str, str], check_labels]
NodeLabels = Annotated[tuple[str, ...], check_any_label]
Taint = Annotated[
    str,
    matching(_TAINT, f"is not a taint; use key=value:Effect, with the effect {', '.join(Effect)}"),
]
NodeCount = Annotated[str, matching(_COUNT, 'is not a number of nodes; use "1" or more, or "1%" to "100%"')]
Replicas = Annotated[int, between(1, _MAX_REPLICAS)]
Cpu = Annotated[str, matching(CPU, "is not a number of cores; use 500m or 1")]
Memory = Annotated[str, matching(MEMORY, "is not an amount; use Ki, Mi or Gi, like 512Mi")]
Storage = Annotated[str, matching(STORAGE, "is not an amount; use Mi, Gi or Ti, like 20Gi")]
Retention = Annotated[str, matching(DURATION, "is not a duration; use h, d, w or y, like 15d")]
Tolerations = tuple[Annotated[Toleration, check_toleration], ...]
