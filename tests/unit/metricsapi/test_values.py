"""Numbers of pods, namespaces and nodes, combined as the source document's rules do."""

import pytest

from gpushare.metricsapi.offers import OFFERS, Kind, Question
from gpushare.metricsapi.values import Book
from gpushare.model.selector import parse_selector
from gpushare.monitoring.page import Sample

SM = "DCGM_CUSTOM_PROCESS_SM_UTIL"
USED = "DCGM_CUSTOM_PROCESS_MEM_USED"
ALLOCATED = "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED"
RATIO = "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO"
GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"


def of_pod(metric: str, pod: str, number: float, *, node: str = "n", gpu: str = "0") -> Sample:
    namespace = "a" if pod else ""
    labels = {"NodeName": node, "NamespaceName": namespace, "PodName": pod, "gpu": gpu}
    return Sample(metric, labels, number)


def values(page: list[Sample], metric: str, kind: Kind, place: str = "a", more: str = "") -> dict[str, float]:
    book = Book()
    book.add(page, 100)
    question = Question(OFFERS[metric], kind, place, "", parse_selector(more))
    return {name: value.number for name, value in book.values(question).items()}


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


def test_parts_of_time_are_averaged() -> None:
    assert values(PAGE, SM, Kind.PODS) == {"busy": 30, "idle": 0}
    assert values(PAGE, SM, Kind.NAMESPACES) == {"a": 20}


def test_amounts_are_added_up() -> None:
    assert values(PAGE, USED, Kind.PODS) == {"busy": 300, "idle": 0}
    assert values(PAGE, USED, Kind.NAMESPACES) == {"a": 300}


def test_a_node_has_what_runs_on_it_in_no_pod_too() -> None:
    assert values(PAGE, SM, Kind.NODES, "") == {"n": 40, "m": 0}


def test_the_ratio_is_all_that_is_used_over_all_that_was_given() -> None:
    assert values(PAGE, RATIO, Kind.PODS) == {"busy": 0.5}
    assert values(PAGE, RATIO, Kind.NAMESPACES) == {"a": 0.5}


def test_pods_of_another_namespace_are_not_shown() -> None:
    assert values(PAGE, SM, Kind.PODS, "b") == {}
    assert values(PAGE, SM, Kind.PODS, "") == {}


def test_series_can_be_chosen_by_their_labels() -> None:
    assert values(PAGE, SM, Kind.PODS, more="gpu=1") == {"busy": 20}
    assert values(PAGE, RATIO, Kind.PODS, more="gpu=1") == {"busy": 1}
    assert values(PAGE, RATIO, Kind.PODS, more="gpu!=1") == {"busy": 0.25}


def test_one_object_can_be_asked_for() -> None:
    book = Book()
    book.add(PAGE, 100)
    assert set(book.values(Question(OFFERS[SM], Kind.PODS, "a", "idle"))) == {"idle"}


def test_what_is_no_number_is_left_out() -> None:
    assert values([of_pod(SM, "busy", float("nan")), of_pod(SM, "idle", 1)], SM, Kind.PODS) == {"idle": 1}


def test_a_value_is_as_old_as_the_oldest_of_its_parts() -> None:
    book = Book()
    book.add([Sample(GPU_UTIL, {"NodeName": "n"}, 10)], 100)
    book.add([Sample(GPU_UTIL, {"NodeName": "n"}, 20)], 90)
    value = book.values(Question(OFFERS[GPU_UTIL], Kind.NODES))["n"]
    assert (value.number, value.at) == (15, 90)


@pytest.mark.parametrize("metric", OFFERS)
def test_every_metric_that_is_offered_is_about_something(metric: str) -> None:
    kinds = OFFERS[metric].kinds
    assert kinds
    labels = {label: "x" for source in OFFERS[metric].sources for label in source.labels}
    page = [Sample(each.name, labels, 2) for each in OFFERS[metric].sources]
    for kind in kinds:
        place = "" if kind is Kind.NODES else "x"
        assert values(page, metric, kind, place) == {"x": 1 if metric == RATIO else 2}
