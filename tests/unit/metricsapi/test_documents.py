"""The JSON of the API, as its clients read it."""

import json
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.metricsapi.documents import (
    failure,
    group,
    group_list,
    quantity,
    resource_list,
    usage_resource_list,
    value_list,
)
from gpushare.metricsapi.queries import DEFINITIONS, MetricQuery, MetricValue, ObjectKind
from gpushare.model.quantity import parse_quantity

SM = MetricQuery(DEFINITIONS["DCGM_CUSTOM_PROCESS_SM_UTIL"], ObjectKind.PODS, "a")
VALUES = {"q": MetricValue(0.85, 1700000000.9), "p": MetricValue(23, 1700000000.9)}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (23, "23"),
        (0, "0"),
        (0.85, "850m"),
        (11.5, "11500m"),
        (-0.5, "-500m"),
        (1 / 3, "333m"),
        (2.0**40, "1099511627776"),
        (1e308, str(int(1e308))),
        (-1e308, str(int(-1e308))),
    ],
)
def test_a_number_is_a_quantity_to_the_thousandth(number: float, text: str) -> None:
    assert quantity(number) == text


@given(st.integers(min_value=0, max_value=2**53))
def test_whole_numbers_are_kept(number: int) -> None:
    assert parse_quantity(quantity(number)) == number


def test_a_list_of_the_newer_version() -> None:
    assert value_list("v1beta2", SM, VALUES) == {
        "kind": "MetricValueList",
        "apiVersion": "custom.metrics.k8s.io/v1beta2",
        "metadata": {},
        "items": [
            {
                "describedObject": {"kind": "Pod", "namespace": "a", "name": name, "apiVersion": "/v1"},
                "metric": {"name": "DCGM_CUSTOM_PROCESS_SM_UTIL", "selector": None},
                "timestamp": "2023-11-14T22:13:20Z",
                "value": value,
            }
            for name, value in (("p", "23"), ("q", "850m"))
        ],
    }


def test_an_item_of_the_older_version() -> None:
    (item, _) = value_list("v1beta1", SM, VALUES)["items"]
    assert item["metricName"] == "DCGM_CUSTOM_PROCESS_SM_UTIL"
    assert "metric" not in item


def test_nodes_and_namespaces_are_in_no_namespace() -> None:
    for kind, name in ((ObjectKind.NODES, "Node"), (ObjectKind.NAMESPACES, "Namespace")):
        (item, _) = value_list("v1beta2", MetricQuery(SM.definition, kind, "a"), VALUES)["items"]
        assert item["describedObject"] == {"kind": name, "name": "p", "apiVersion": "/v1"}


def test_discovery_lists_the_metrics_of_the_ack_documentation() -> None:
    listed = {each["name"]: each for each in resource_list("v1beta1")["resources"]}
    for kind, namespaced in (("nodes", False), ("pods", True), ("namespaces", False)):
        assert listed[f"{kind}/DCGM_CUSTOM_PROCESS_SM_UTIL"] == {
            "name": f"{kind}/DCGM_CUSTOM_PROCESS_SM_UTIL",
            "singularName": "",
            "namespaced": namespaced,
            "kind": "MetricValueList",
            "verbs": ["get"],
        }
    for name in (
        "nodes/DCGM_FI_DEV_GPU_UTIL",
        "nodes/DCGM_FI_DEV_FB_USED",
        "pods/DCGM_CUSTOM_PROCESS_MEM_USED",
    ):
        assert name in listed
    assert "pods/DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO" in listed


def test_both_versions_are_listed_and_the_newer_is_preferred() -> None:
    found = group("custom.metrics.k8s.io")
    assert [each["version"] for each in found["versions"]] == ["v1beta2", "v1beta1"]
    assert found["preferredVersion"]["groupVersion"] == "custom.metrics.k8s.io/v1beta2"


def test_the_usage_api_lists_its_resources() -> None:
    assert {each["name"]: each["verbs"] for each in usage_resource_list()["resources"]} == {
        "gpupods": ["get", "list"],
        "gpupods/explanation": ["get"],
        "gpufits": ["list"],
    }
    assert [each["name"] for each in group_list()["groups"]] == ["custom.metrics.k8s.io", "usage.gpushare.io"]


def test_an_error_is_a_status_object() -> None:
    answer = failure(HTTPStatus.NOT_FOUND, "no such metric")
    assert answer.status == 404
    assert json.loads(answer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "no such metric",
        "reason": "NotFound",
        "code": 404,
    }
