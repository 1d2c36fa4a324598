"""Paths as the API server reads them."""

import pytest

from gpushare.metricsapi.paths import (
    Attributes,
    MetricRequest,
    UsageKind,
    UsageRequest,
    attributes_of,
    metric_request_of,
    usage_request_of,
)
from gpushare.metricsapi.queries import ObjectKind

GROUP = "custom.metrics.k8s.io"
API = f"/apis/{GROUP}/v1beta2"
USAGE = "/apis/usage.gpushare.io/v1"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("namespaces/a/pods/*/m", MetricRequest("v1beta2", ObjectKind.PODS, "a", "*", "m")),
        ("namespaces/a/pods/p/m/", MetricRequest("v1beta2", ObjectKind.PODS, "a", "p", "m")),
        ("namespaces/a/metrics/m", MetricRequest("v1beta2", ObjectKind.NAMESPACES, "a", "a", "m")),
        ("nodes/n/m", MetricRequest("v1beta2", ObjectKind.NODES, "", "n", "m")),
    ],
)
def test_a_path_of_a_metric_is_parsed(path: str, expected: MetricRequest) -> None:
    assert metric_request_of(f"{API}/{path}") == expected


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/apis",
        API,
        f"{API}/pods/p/m",
        f"{API}/namespaces/a/pods/p",
        f"{API}/namespaces//pods/p/m",
        f"{API}/namespaces/a/services/s/m",
        "/apis/custom.metrics.k8s.io/v1/nodes/n/m",
        "/apis/external.metrics.k8s.io/v1beta1/nodes/n/m",
    ],
)
def test_any_other_path_is_no_metric_request(path: str) -> None:
    assert metric_request_of(path) is None
    assert attributes_of("GET", path) == Attributes("get", path)


def test_the_required_permission_is_that_of_the_api_server() -> None:
    pods = attributes_of("GET", f"{API}/namespaces/a/pods/*/m")
    assert pods == Attributes("get", "", GROUP, "v1beta2", "a", "pods", "m", "*")
    namespace = attributes_of("GET", f"{API}/namespaces/a/metrics/m")
    assert namespace == Attributes("get", "", GROUP, "v1beta2", "a", "metrics", "", "m")
    assert attributes_of("DELETE", f"{API}/nodes/n/m").verb == "delete"


@pytest.mark.parametrize(
    ("path", "target", "verb", "resource", "subresource"),
    [
        ("gpupods", UsageRequest(UsageKind.PODS, "a"), "list", "gpupods", ""),
        ("gpupods/p", UsageRequest(UsageKind.PODS, "a", "p"), "get", "gpupods", ""),
        (
            "gpupods/p/explanation",
            UsageRequest(UsageKind.EXPLANATION, "a", "p"),
            "get",
            "gpupods",
            "explanation",
        ),
        ("gpufits", UsageRequest(UsageKind.FITS, "a"), "list", "gpufits", ""),
    ],
)
def test_a_path_of_the_usage_api(
    path: str, target: UsageRequest, verb: str, resource: str, subresource: str
) -> None:
    whole = f"{USAGE}/namespaces/a/{path}"
    assert usage_request_of(whole) == target
    assert metric_request_of(whole) is None
    assert attributes_of("GET", whole) == Attributes(
        verb, "", "usage.gpushare.io", "v1", "a", resource, subresource, target.name
    )


@pytest.mark.parametrize(
    "path",
    [
        USAGE,
        f"{USAGE}/gpupods",
        f"{USAGE}/namespaces/a",
        f"{USAGE}/namespaces//gpupods",
        f"{USAGE}/namespaces/a/gpupods/p/log",
        f"{USAGE}/namespaces/a/gpufits/x",
        "/apis/usage.gpushare.io/v2/namespaces/a/gpupods",
    ],
)
def test_any_other_path_is_no_usage_request(path: str) -> None:
    assert usage_request_of(path) is None
    assert attributes_of("GET", path) == Attributes("get", path)
