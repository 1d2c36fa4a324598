"""Gauges of the extender that are counted at a scrape."""

from prometheus_client import CollectorRegistry

from gpushare.extender.metrics import PodCollector
from gpushare.model.demand import Malformed
from gpushare.model.objects import Pod
from tests.builders.scheduling import demand, pod


def shown(*pods: Pod) -> tuple[float | None, float | None]:
    """The number of waiting pods, and the smallest request among them."""
    registry = CollectorRegistry()
    registry.register(PodCollector(lambda: pods))
    pending, least = "gpushare_pods_pending", "gpushare_pods_pending_least_units"
    return registry.get_sample_value(pending), registry.get_sample_value(least)


def test_pods_without_a_node_wait() -> None:
    assert shown(pod("a", 6), pod("b", 4), pod("c", 2, at="n")) == (2, 4)


def test_a_pod_on_several_gpus_requests_its_units_of_each() -> None:
    assert shown(pod("a", demand(6, cards=3))) == (1, 2)


def test_a_pod_that_ends_waits_for_nothing() -> None:
    assert shown(pod("a", finished=True), pod("b", terminating=True)) == (0, None)


def test_pods_that_request_no_units_or_are_malformed_are_not_counted() -> None:
    assert shown(pod("a", 0), pod("b", Malformed("nonsense"))) == (0, None)
