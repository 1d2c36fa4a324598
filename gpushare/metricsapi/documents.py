"""JSON documents of the API: value lists, discovery, errors. Pure.

The types: ``k8s.io/metrics/pkg/apis/custom_metrics`` (v1beta1 and v1beta2) and ``Status``, ``APIGroup`` and
``APIResourceList`` of ``k8s.io/apimachinery``.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

import msgspec

from gpushare.contract import (
    METRICS_API_GROUP,
    METRICS_API_VERSIONS,
    USAGE_API_GROUP,
    USAGE_API_VERSION,
)
from gpushare.metricsapi.queries import DEFINITIONS, MetricQuery, MetricValue, ObjectKind
from gpushare.model.usage_documents import EXPLANATION, USAGE_VERSION
from gpushare.runtime.http import Response

Object = dict[str, Any]

_VALUES: Final = "MetricValueList"
_KINDS: Final = {ObjectKind.PODS: "Pod", ObjectKind.NODES: "Node", ObjectKind.NAMESPACES: "Namespace"}
_OLD: Final = "v1beta1"
_EXACT: Final = 2**53
"""Larger numbers have no fractions; a thousand times the largest ones is infinite."""
_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    METRICS_API_GROUP: METRICS_API_VERSIONS,
    USAGE_API_GROUP: (USAGE_API_VERSION,),
}
"""The versions of each group, the preferred one first."""

_encode = msgspec.json.Encoder().encode


def json_response(document: Object, status: int = HTTPStatus.OK) -> Response:
    """Return the document as an HTTP response."""
    return Response(_encode(document), int(status))


def failure(status: HTTPStatus, message: str) -> Response:
    """Return a Status object, which clients show as the error."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS[status],
        "code": int(status),
    }
    return json_response(document, status)


def value_list(version: str, query: MetricQuery, values: Mapping[str, MetricValue]) -> Object:
    """Return a MetricValueList, sorted by object name."""
    return {
        "kind": _VALUES,
        "apiVersion": f"{METRICS_API_GROUP}/{version}",
        "metadata": {},
        "items": [_item(version, query, name, values[name]) for name in sorted(values)],
    }


def _item(version: str, query: MetricQuery, name: str, value: MetricValue) -> Object:
    metric = query.definition.name
    named = {"metricName": metric} if version == _OLD else {"metric": {"name": metric, "selector": None}}
    namespace = {"namespace": query.namespace} if query.kind is ObjectKind.PODS else {}
    described = {"kind": _KINDS[query.kind], **namespace, "name": name, "apiVersion": "/v1"}
    return {
        "describedObject": described,
        **named,
        "timestamp": _time(int(value.at)),
        "value": quantity(value.number),
        **({"selector": None} if version == _OLD else {}),
    }


@lru_cache(maxsize=64)
def _time(second: int) -> str:
    """Format the timestamp; cached because all pods of a node share it."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def quantity(number: float) -> str:
    """Return a Kubernetes quantity with three decimals: ``23``, ``850m``."""
    if abs(number) >= _EXACT:
        return str(int(number))
    thousandths = round(number * 1000)
    whole, rest = divmod(thousandths, 1000)
    return f"{thousandths}m" if rest else str(whole)


# --- discovery ----------------------------------------------------------------------------------


def resource_list(version: str) -> Object:
    """Return the APIResourceList: every metric for every kind of object."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{METRICS_API_GROUP}/{version}",
        "resources": [
            _resource(kind, definition.name)
            for definition in DEFINITIONS.values()
            for kind in definition.kinds
        ],
    }


def _resource(kind: ObjectKind, metric: str) -> Object:
    return {
        "name": f"{kind.value}/{metric}",
        "singularName": "",
        "namespaced": kind is ObjectKind.PODS,
        "kind": _VALUES,
        "verbs": ["get"],
    }


def usage_resource_list() -> Object:
    """Return the APIResourceList of the usage API."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": USAGE_VERSION,
        "resources": [
            _usage_resource("gpupods", "gpupod", "GpuPod", "get", "list"),
            _usage_resource("gpupods/explanation", "", EXPLANATION, "get"),
            _usage_resource("gpufits", "gpufit", "GpuFit", "list"),
        ],
    }


def _usage_resource(name: str, singular: str, kind: str, *verbs: str) -> Object:
    return {"name": name, "singularName": singular, "namespaced": True, "kind": kind, "verbs": list(verbs)}


def group(name: str) -> Object:
    """Return the APIGroup with its versions, the preferred one first."""
    versions = [{"groupVersion": f"{name}/{each}", "version": each} for each in GROUPS[name]]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def group_list() -> Object:
    """Return the APIGroupList of both groups."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(each) for each in GROUPS]}
