"""Rules for the catalogue, its metrics as families, and the daemons that serve them."""

from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.extender.ledger_page import LedgerPage
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.webhook import registry_of
from gpushare.metricsapi.metrics import ApiMetrics
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Group, Metric
from gpushare.monitoring.families import MetricSeries, counter, family, gauge
from gpushare.mpsd.metrics import MpsMetrics
from gpushare.scheduling.ledger import EMPTY_LEDGER
from tests.support.steps import finished

ALL = catalogue.ALL
OTHER_UNITS = ("_mib", "_percent", "_ms", "_mhz", "_kib")


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(each.name for each in ALL).items() if count > 1] == []


def test_every_metric_is_in_a_group() -> None:
    declared = {each for each in vars(catalogue).values() if isinstance(each, Metric)}
    assert declared == set(ALL)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_our_metrics_have_base_units(metric: Metric) -> None:
    assert metric.help.endswith(".")
    assert not metric.name.endswith("_total") or metric.kind == "unknown"
    if metric.name.startswith("gpushare_"):
        assert not metric.name.endswith(OTHER_UNITS)
        assert metric.kind != "unknown"
        assert all(label.islower() for label in metric.labels)


def test_names_and_labels_of_the_ack_documentation_are_exact() -> None:
    by_name = {each.name: each.labels for each in catalogue.EXPORTER}
    card = ("NodeName", "UUID", "gpu", "device", "modelName")
    of_pod = ("NodeName", "NamespaceName", "PodName", "ContainerName", "UUID", "gpu", "device", "modelName")
    for name in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"):
        assert by_name[name] == card
    for part in ("PROCESS_SM_UTIL", "PROCESS_MEM_USED", "CONTAINER_MEM_ALLOCATED", "CONTAINER_CP_ALLOCATED"):
        assert by_name[f"DCGM_CUSTOM_{part}"] == of_pod
    for part in ("memory_total_bytes", "memory_used_bytes", "duty_cycle"):
        assert f"container_accelerator_{part}" in by_name


def extender_families() -> Iterable[Family]:
    page = finished(LedgerPage(lambda: EMPTY_LEDGER, tuple).steps())
    return [*ExtenderMetrics().registry.collect(), *text_string_to_metric_families(page.decode())]


@pytest.mark.parametrize(
    ("group", "make"),
    [
        (catalogue.EXTENDER, extender_families),
        (catalogue.DEVICE_PLUGIN, PluginMetrics().registry.collect),
        (catalogue.METRICS_API, ApiMetrics().registry.collect),
        (catalogue.SCHEDULER_NAMING, registry_of(lambda: 0.0).collect),
        (catalogue.MPS, MpsMetrics().registry.collect),
    ],
    ids=["extender", "device plugin", "metrics API", "webhook", "MPS daemon"],
)
def test_a_daemon_serves_the_metrics_of_its_group(group: Group, make: Callable[[], Iterable[Family]]) -> None:
    served = {(each.name, each.type, each.documentation) for each in make()}
    assert served == {(each.name, each.kind, each.help) for each in (*catalogue.COMMON, *group)}


class Collected:
    """A collector of these series."""

    def __init__(self, *series: MetricSeries) -> None:
        self.families = [family(each) for each in series]

    def collect(self):  # type: ignore[no-untyped-def]
        return iter(self.families)


def test_a_collected_family_is_rendered_like_a_registered_one() -> None:
    number = Metric("a_gauge", "gauge", "A gauge.", ("x",))
    count = Metric("a_count", "counter", "A counter.")
    registry = CollectorRegistry()
    gauge(number, registry).labels("1").set(2.5)
    counter(count, registry).inc(3)
    made = CollectorRegistry()
    made.register(Collected(MetricSeries(number, [(("1",), 2.5)]), MetricSeries(count, [((), 3)])))
    lines = generate_latest(registry).decode().splitlines()
    assert set(generate_latest(made).decode().splitlines()) == {
        each for each in lines if "_created" not in each
    }


def test_labels_that_do_not_fit_the_metric_are_a_defect() -> None:
    with pytest.raises(ValueError, match="zip"):
        family(MetricSeries(Metric("a", "gauge", "A.", ("x",)), [(("1", "2"), 1)]))
