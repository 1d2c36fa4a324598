"""Access reviews by the API server, and their caching."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpushare.adapters.kube.reviews import Caller
from gpushare.errors import ApiError
from gpushare.metricsapi.access import Authorizer, review_spec
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.metricsapi.paths import attributes_of

CALLER = Caller("u", "7", ("g", "h"), (("scope", ("x",)),))
METRIC = attributes_of("GET", "/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/pods/*/m")
IDENTITY = {"user": "u", "uid": "7", "groups": ("g", "h"), "extra": {"scope": ("x",)}}


def test_a_metric_is_a_resource() -> None:
    assert review_spec(CALLER, METRIC) == {
        **IDENTITY,
        "resourceAttributes": {
            "group": "custom.metrics.k8s.io",
            "version": "v1beta2",
            "verb": "get",
            "namespace": "a",
            "resource": "pods",
            "subresource": "m",
            "name": "*",
        },
    }


def test_discovery_is_a_path() -> None:
    spec = review_spec(CALLER, attributes_of("GET", "/apis"))
    assert spec == {**IDENTITY, "nonResourceAttributes": {"path": "/apis", "verb": "get"}}


async def test_a_verdict_is_cached_by_caller_and_attributes() -> None:
    asked: list[str] = []

    async def review(spec: Mapping[str, Any]) -> bool:
        asked.append(spec["user"])
        return bool(spec["user"] == "u")

    metrics = ApiMetrics()
    access = Authorizer(review, metrics)
    for _ in range(3):
        assert await access.allowed(CALLER, METRIC)
        assert not await access.allowed(Caller("other"), METRIC)
    assert asked == ["u", "other"]
    assert (
        metrics.registry.get_sample_value("gpushare_metrics_api_access_reviews_total", {"result": "denied"})
        == 1
    )


async def test_a_failed_review_is_no_verdict() -> None:
    async def review(_: Mapping[str, Any]) -> bool:
        raise ApiError("no answer in time")

    with pytest.raises(ApiError):
        await Authorizer(review, ApiMetrics()).allowed(CALLER, METRIC)
