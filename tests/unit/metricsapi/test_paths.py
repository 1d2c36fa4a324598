"""Paths as the API server reads them."""

import pytest

from gpushare.metricsapi.paths import Attributes, MetricRequest, attributes_of, metric_request_of
from gpushare.metricsapi.queries import ObjectKind

API = "/apis/custom.metrics.k8s.io/v1beta2"


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
    assert pods == Attributes("get", "", "v1beta2", "a", "pods", "m", "*")
    namespace = attributes_of("GET", f"{API}/namespaces/a/metrics/m")
    assert namespace == Attributes("get", "", "v1beta2", "a", "metrics", "", "m")
    assert attributes_of("DELETE", f"{API}/nodes/n/m").verb == "delete"
