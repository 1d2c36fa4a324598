"""Values of pods, namespaces and nodes, combined as in the rules of the ACK documentation."""

import pytest

from gpushare.metricsapi.queries import DEFINITIONS, MetricQuery, ObjectKind
from gpushare.metricsapi.values import ExporterReadings
from gpushare.model.selector import parse_selector
from gpushare.monitoring.page import MetricSample

SM = "DCGM_CUSTOM_PROCESS_SM_UTIL"
USED = "DCGM_CUSTOM_PROCESS_MEM_USED"
ALLOCATED = "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED"
RATIO = "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO"
GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"


def of_pod(metric: str, pod: str, number: float, *, node: str = "n", gpu: str = "0") -> MetricSample:
    labels = {"NodeName": node, "NamespaceName": "a" if pod else "", "PodName": pod, "gpu": gpu}
    return MetricSample(metric, labels, number)


def values(
    page: list[MetricSample], metric: str, kind: ObjectKind, namespace: str = "a", more: str = ""
) -> dict[str, float]:
    readings = ExporterReadings()
    readings.add(page, 100)
    query = MetricQuery(DEFINITIONS[metric], kind, namespace, "", parse_selector(more))
    return {name: value.number for name, value in readings.values(query).items()}


PAGE = [
    of_pod(SM, "busy", 40),
    of_pod(SM, "busy", 20, gpu="1"),
    of_pod(SM, "idle", 0, node="m"),
    of_pod(SM, "", 60),
    of_pod(USED, "busy", 100),
    of_pod(USED, "busy", 200, gpu="1"),
    of_pod(USED, "idle", 0, node="m"),
    of_pod(ALLOCATED, "busy", 400),
    of_pod(ALLOCATED, "busy", 200, gpu="1"),
    of_pod(ALLOCATED, "idle", 0, node="m"),
]


def test_utilizations_are_averaged() -> None:
    assert values(PAGE, SM, ObjectKind.PODS) == {"busy": 30, "idle": 0}
    assert values(PAGE, SM, ObjectKind.NAMESPACES) == {"a": 20}


def test_amounts_are_summed() -> None:
    assert values(PAGE, USED, ObjectKind.PODS) == {"busy": 300, "idle": 0}
    assert values(PAGE, USED, ObjectKind.NAMESPACES) == {"a": 300}


def test_a_node_includes_processes_of_no_pod() -> None:
    assert values(PAGE, SM, ObjectKind.NODES, "") == {"n": 40, "m": 0}


def test_the_ratio_is_used_over_allocated_memory() -> None:
    assert values(PAGE, RATIO, ObjectKind.PODS) == {"busy": 0.5}
    assert values(PAGE, RATIO, ObjectKind.NAMESPACES) == {"a": 0.5}


def test_pods_of_other_namespaces_are_omitted() -> None:
    assert values(PAGE, SM, ObjectKind.PODS, "b") == {}
    assert values(PAGE, SM, ObjectKind.PODS, "") == {}


def test_series_are_selected_by_labels() -> None:
    assert values(PAGE, SM, ObjectKind.PODS, more="gpu=1") == {"busy": 20}
    assert values(PAGE, RATIO, ObjectKind.PODS, more="gpu=1") == {"busy": 1}
    assert values(PAGE, RATIO, ObjectKind.PODS, more="gpu!=1") == {"busy": 0.25}


def test_one_object_is_selected_by_name() -> None:
    readings = ExporterReadings()
    readings.add(PAGE, 100)
    assert set(readings.values(MetricQuery(DEFINITIONS[SM], ObjectKind.PODS, "a", "idle"))) == {"idle"}


def test_values_that_are_no_numbers_are_omitted() -> None:
    assert values([of_pod(SM, "busy", float("nan")), of_pod(SM, "idle", 1)], SM, ObjectKind.PODS) == {
        "idle": 1
    }


def test_a_value_has_the_time_of_its_oldest_sample() -> None:
    readings = ExporterReadings()
    readings.add([MetricSample(GPU_UTIL, {"NodeName": "n"}, 10)], 100)
    readings.add([MetricSample(GPU_UTIL, {"NodeName": "n"}, 20)], 90)
    value = readings.values(MetricQuery(DEFINITIONS[GPU_UTIL], ObjectKind.NODES))["n"]
    assert (value.number, value.at) == (15, 90)


@pytest.mark.parametrize("metric", DEFINITIONS)
def test_every_metric_has_values_of_each_of_its_kinds(metric: str) -> None:
    kinds = DEFINITIONS[metric].kinds
    assert kinds
    labels = {label: "x" for source in DEFINITIONS[metric].sources for label in source.labels}
    page = [MetricSample(each.name, labels, 2) for each in DEFINITIONS[metric].sources]
    for kind in kinds:
        namespace = "" if kind is ObjectKind.NODES else "x"
        assert values(page, metric, kind, namespace) == {"x": 1 if metric == RATIO else 2}
