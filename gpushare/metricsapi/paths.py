"""Parsing of request paths into metric requests and attributes.

The protocol: https://github.com/kubernetes/design-proposals-archive/blob/main/instrumentation/custom-metrics-api.md
"""

from dataclasses import dataclass
from typing import Final

from gpushare.contract import METRICS_API_GROUP, METRICS_API_VERSIONS
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
    target = metric_request_of(path)
    if target is None:
        return Attributes(verb, path)
    if target.kind is ObjectKind.NAMESPACES:
        return Attributes(verb, "", target.version, target.namespace, _NAMESPACE_METRICS, "", target.metric)
    return Attributes(
        verb, "", target.version, target.namespace, target.kind.value, target.metric, target.name
    )


def _split(path: str) -> tuple[str, list[str]]:
    """Return the version and the parts after it; both empty if the path is not of this API."""
    parts = path.strip("/").split("/")
    served = parts[:2] == [_ROOT, METRICS_API_GROUP] and parts[2:3] and parts[2] in METRICS_API_VERSIONS
    return (parts[2], parts[3:]) if served and all(parts) else ("", [])
