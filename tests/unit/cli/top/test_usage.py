import json
import math
from collections.abc import Mapping

import pytest

from gpushare.cli.lib.text_table import TextTable, text_of
from gpushare.cli.top.render import table, usage_document
from gpushare.cli.top.usage import containers, gpus, metric_of_gpus, metric_of_pods, ordered, series
from gpushare.errors import ConfigError
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample
from gpushare.overview.usage import UsageFilter

MIB = 2**20
ALL = UsageFilter()


def held(pod: str, node: str = "n1", namespace: str = "default") -> Mapping[str, str]:
    return {
        "node": node,
        "namespace": namespace,
        "pod": pod,
        "container": "main",
        "card": "0",
        "uuid": "GPU-1",
    }


def page(*series: tuple[Metric, Mapping[str, str], float]) -> list[MetricSample]:
    return [MetricSample(str(metric), labels, number) for metric, labels, number in series]


BUSY = page(
    (catalogue.CONTAINER_USED, held("b"), 1024 * MIB),
    (catalogue.CONTAINER_ALLOCATED, held("b"), 2048 * MIB),
    (catalogue.CONTAINER_UTILIZATION, held("b"), 0.25),
    (catalogue.CONTAINER_ALLOCATED, held("a"), 2048 * MIB),
    (catalogue.CARD_USED, {"node": "n1", "card": "0", "uuid": "GPU-1"}, 1100 * MIB),
)
OTHER = page((catalogue.CONTAINER_USED, held("a", "n2", "team"), 0))


def test_a_container_has_one_row_with_any_known_values() -> None:
    shown = table(containers([*BUSY, *OTHER], ALL))
    assert shown.headers[:5] == ("NAMESPACE", "POD", "CONTAINER", "NODE", "GPU")
    assert [row[1:2] + row[5:] for row in shown.rows] == [
        ("a", "-", "2048 MiB", "-"),
        ("b", "1024 MiB", "2048 MiB", "25%"),
        ("a", "0 MiB", "-", "-"),
    ]


def test_a_gpu_without_a_thermometer_has_a_dash() -> None:
    assert table(gpus(BUSY, ALL)).rows == (("n1", "0", "-", "4096 MiB", "1100 MiB", "-", "-", "-", "-"),)


def test_a_gpu_has_its_model_and_what_is_allocated_on_it() -> None:
    card = {"node": "n1", "card": "0", "uuid": "GPU-1"}
    info = page((catalogue.CARD_INFO, card | {"model": "Tesla T4", "pci": "0"}, 1))
    shown = table(gpus([*BUSY, *info], ALL))
    assert shown.headers[:5] == ("NODE", "GPU", "MODEL", "ALLOCATED", "USED")
    assert shown.rows[0][:5] == ("n1", "0", "Tesla T4", "4096 MiB", "1100 MiB")


@pytest.mark.parametrize(
    ("wanted", "pods"),
    [
        (UsageFilter(node="n2"), ["a"]),
        (UsageFilter(namespace="default"), ["a", "b"]),
        (UsageFilter(namespace="default", pod="b"), ["b"]),
        (UsageFilter(pod="c"), []),
    ],
)
def test_only_requested_columns_are_shown(wanted: UsageFilter, pods: list[str]) -> None:
    assert [labels[1] for labels, _ in containers([*BUSY, *OTHER], wanted).rows] == pods


def test_one_metric_is_shown_label_by_label() -> None:
    shown = table(series(BUSY, metric_of_pods("gpushare_container_utilization_ratio"), ALL))
    assert shown.headers == (*(each.upper() for each in catalogue.CONTAINER_UTILIZATION.labels), "VALUE")
    assert shown.rows == (("n1", "default", "b", "main", "0", "GPU-1", "0.25"),)


def test_every_metric_with_a_gpu_belongs_to_pods_or_to_gpus() -> None:
    own = [each for each in catalogue.EXPORTER if "uuid" in map(str.lower, each.labels)]
    for metric in own:
        find = metric_of_pods if {"pod", "PodName"} & set(metric.labels) else metric_of_gpus
        assert find(str(metric)) is metric


def test_a_counter_is_found_with_and_without_its_suffix() -> None:
    refusals = catalogue.CONTAINER_REFUSALS
    assert str(refusals).endswith("_total")
    assert metric_of_pods(str(refusals)) is metric_of_pods(refusals.name) is refusals


@pytest.mark.parametrize("find", [metric_of_pods, metric_of_gpus])
def test_the_error_for_an_unknown_metric_lists_the_known_ones(find: object) -> None:
    with pytest.raises(ConfigError, match=r"--metric: 'gpu' is not a metric of .*; use one of DCGM_"):
        find("gpu")  # type: ignore[operator]


def test_a_document_has_numbers_and_nulls() -> None:
    endless = page((catalogue.CONTAINER_UTILIZATION, held("b"), math.inf))
    found = usage_document(containers([BUSY[1], *endless], ALL))
    assert (found["apiVersion"], found["kind"]) == ("gpushare.io/v1", "ContainerUsageList")
    assert json.dumps(found["items"], allow_nan=False)
    labels = {"namespace": "default", "pod": "b", "container": "main", "node": "n1", "gpu": "0"}
    numbers = {"usedBytes": None, "allocatedBytes": 2048 * MIB, "utilization": None}
    assert found["items"] == [labels | numbers]


def test_a_document_of_one_metric_has_its_labels() -> None:
    found = usage_document(series(BUSY, catalogue.CARD_USED, ALL))
    assert found["items"] == [{"node": "n1", "card": "0", "uuid": "GPU-1", "value": 1100 * MIB}]
    assert isinstance(found["items"][0]["value"], int)


def test_a_table_has_columns_without_borders() -> None:
    two = TextTable(("POD", "USED"), (("a", "1 MiB"), ("long", "-")))
    assert text_of(two) == "POD   USED\na     1 MiB\nlong  -\n"


@pytest.mark.parametrize(
    ("by", "pods"),
    [("name", ["a", "b", "a"]), ("used", ["b", "a", "a"]), ("utilization", ["b", "a", "a"])],
)
def test_rows_are_sorted_by_a_number_with_unknown_ones_last(by: str, pods: list[str]) -> None:
    usage = ordered(containers([*BUSY, *OTHER], ALL), by)
    assert [labels[1] for labels, _ in usage.rows] == pods
