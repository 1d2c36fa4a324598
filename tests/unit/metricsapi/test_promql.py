"""Queries to Prometheus, and its answers."""

import json

import pytest

from gpushare.errors import SourceError
from gpushare.metricsapi.promql import promql, values_of
from gpushare.metricsapi.queries import DEFINITIONS, MetricQuery, MetricValue, ObjectKind
from gpushare.model.selector import parse_selector

SM = DEFINITIONS["DCGM_CUSTOM_PROCESS_SM_UTIL"]
RATIO = DEFINITIONS["DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO"]
PODS = MetricQuery(SM, ObjectKind.PODS, "a")


@pytest.mark.parametrize(
    ("query", "expr"),
    [
        (
            PODS,
            'avg(DCGM_CUSTOM_PROCESS_SM_UTIL{NamespaceName="a",PodName!=""}) by (PodName)',
        ),
        (
            MetricQuery(SM, ObjectKind.PODS, "a", "p"),
            'avg(DCGM_CUSTOM_PROCESS_SM_UTIL{NamespaceName="a",PodName="p"}) by (PodName)',
        ),
        (
            MetricQuery(DEFINITIONS["DCGM_FI_DEV_FB_USED"], ObjectKind.NODES),
            'sum(DCGM_FI_DEV_FB_USED{NodeName!=""}) by (NodeName)',
        ),
        (
            MetricQuery(DEFINITIONS["gpushare_container_memory_used_bytes"], ObjectKind.NAMESPACES, "a", "a"),
            'sum(gpushare_container_memory_used_bytes{namespace="a"}) by (namespace)',
        ),
        (
            MetricQuery(RATIO, ObjectKind.PODS, "a"),
            (
                'sum(DCGM_CUSTOM_PROCESS_MEM_USED{NamespaceName="a",PodName!=""}) by (PodName) / '
                'sum(DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED{NamespaceName="a",PodName!=""}) by (PodName)'
            ),
        ),
        (
            MetricQuery(SM, ObjectKind.NODES, "", "n", parse_selector("gpu in (1,0),UUID,!x,modelName!=T.4")),
            (
                'avg(DCGM_CUSTOM_PROCESS_SM_UTIL{NodeName="n",gpu=~"0|1",UUID!="",x="",'
                'modelName!~"T\\\\.4"}) by (NodeName)'
            ),
        ),
    ],
)
def test_a_query_in_promql(query: MetricQuery, expr: str) -> None:
    assert promql(query) == expr


def test_names_are_quoted() -> None:
    assert '{NamespaceName="a\\"}",PodName="\\\\"}' in promql(MetricQuery(SM, ObjectKind.PODS, 'a"}', "\\"))


def reply(*series: tuple[dict[str, str], str], status: str = "success") -> bytes:
    result = [{"metric": labels, "value": [1700000000.5, number]} for labels, number in series]
    return json.dumps({"status": status, "data": {"resultType": "vector", "result": result}}).encode()


def test_an_answer_is_read_by_the_objects_name() -> None:
    reported = values_of(reply(({"PodName": "p"}, "23"), ({"PodName": "q"}, "NaN"), ({}, "1")), PODS)
    assert reported == {"p": MetricValue(23, 1700000000.5)}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<html>", "cannot be read"),
        (reply(({"PodName": "p"}, "x")), "cannot be read"),
        (reply(({"PodName": "p"}, "1")).replace(b"1700000000.5", b"1e300"), "1e.300 is not a time"),
        (b'{"status":"error","error":"parse error"}', "parse error"),
        (b'{"status":"success","data":{"result":[[1,"2"]]}}', "cannot be read"),
    ],
)
def test_an_invalid_answer_is_an_error(body: bytes, problem: str) -> None:
    with pytest.raises(SourceError, match=problem):
        values_of(body, PODS)
