"""Parsing of request paths into requests for metrics or usage, and attributes.

The protocol: https://github.com/kubernetes/design-proposals-archive/blob/main/instrumentation/custom-metrics-api.md
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpushare.contract import (
    METRICS_API_GROUP,
    METRICS_API_VERSIONS,
    USAGE_API_GROUP,
    USAGE_API_VERSION,
)
from gpushare.metricsapi.queries import ObjectKind

ALL: Final = "*"
_ROOT: Final = "apis"
_NAMESPACE_METRICS: Final = "metrics"
"""The pseudo-resource for metrics that describe a namespace."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes of a request for a SubjectAccessReview; ``path`` only for non-resource requests."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class MetricRequest:
    """A metric of one object, or of all of a kind (``ALL``)."""

    version: str
    kind: ObjectKind
    namespace: str
    name: str
    metric: str


class UsageKind(StrEnum):
    """What is asked of the usage API."""

    PODS = "gpupods"
    EXPLANATION = "explanation"
    FITS = "gpufits"


@dataclass(frozen=True, slots=True)
class UsageRequest:
    """A request for a namespace; ``name`` is that of a pod, empty for all."""

    kind: UsageKind
    namespace: str
    name: str = ""


def usage_request_of(path: str) -> UsageRequest | None:
    """Parse a path of the usage API; None for any other path."""
    parts = path.strip("/").split("/")
    if parts[:4] != [_ROOT, USAGE_API_GROUP, USAGE_API_VERSION, "namespaces"] or not all(parts):
        return None
    match parts[4:]:
        case [namespace, UsageKind.PODS]:
            return UsageRequest(UsageKind.PODS, namespace)
        case [namespace, UsageKind.PODS, name]:
            return UsageRequest(UsageKind.PODS, namespace, name)
        case [namespace, UsageKind.PODS, name, UsageKind.EXPLANATION]:
            return UsageRequest(UsageKind.EXPLANATION, namespace, name)
        case [namespace, UsageKind.FITS]:
            return UsageRequest(UsageKind.FITS, namespace)
    return None


def metric_request_of(path: str) -> MetricRequest | None:
    """Parse a metric path; None for any other path."""
    version, rest = _split(path)
    match rest:
        case ["namespaces", namespace, "metrics", metric]:
            return MetricRequest(version, ObjectKind.NAMESPACES, namespace, namespace, metric)
        case ["namespaces", namespace, "pods", name, metric]:
            return MetricRequest(version, ObjectKind.PODS, namespace, name, metric)
        case ["nodes", name, metric]:
            return MetricRequest(version, ObjectKind.NODES, "", name, metric)
    return None


def attributes_of(method: str, path: str) -> Attributes:
    """Return the attributes to authorize: the same as the API server checks before it proxies."""
    verb = method.lower()
    if usage := usage_request_of(path):
        return _of_usage(verb, usage)
    target = metric_request_of(path)
    if target is None:
        return Attributes(verb, path)
    group, version, namespace = METRICS_API_GROUP, target.version, target.namespace
    if target.kind is ObjectKind.NAMESPACES:
        return Attributes(verb, "", group, version, namespace, _NAMESPACE_METRICS, "", target.metric)
    return Attributes(verb, "", group, version, namespace, target.kind.value, target.metric, target.name)


def _of_usage(verb: str, target: UsageRequest) -> Attributes:
    verb = "list" if verb == "get" and not target.name else verb
    subresource = str(target.kind) if target.kind is UsageKind.EXPLANATION else ""
    resource = str(UsageKind.PODS if subresource else target.kind)
    return Attributes(
        verb, "", USAGE_API_GROUP, USAGE_API_VERSION, target.namespace, resource, subresource, target.name
    )


def _split(path: str) -> tuple[str, list[str]]:
    """Return the version and the parts after it; both empty if the path is not of this API."""
    parts = path.strip("/").split("/")
    served = parts[:2] == [_ROOT, METRICS_API_GROUP] and parts[2:3] and parts[2] in METRICS_API_VERSIONS
    return (parts[2], parts[3:]) if served and all(parts) else ("", [])
