"""A real Prometheus scrapes our daemons on a real kubelet, with a stub of NVML and a scripted load."""

import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from components.manifests import viewers
from components.render import as_yaml
from gpushare.cli.recommend.collect import Peaks
from gpushare.cli.recommend.collect import collect as observe
from gpushare.cli.recommend.sizing import Basis, Comparison, recommendations
from gpushare.cli.report.accounting import UsageFacts
from gpushare.cli.report.collect import collect
from gpushare.errors import ApiError
from gpushare.monitoring.alerts import ALERTS
from gpushare.monitoring.catalogue import CONTAINER_REMOTE
from gpushare.monitoring.dashboards import PAGES
from gpushare.monitoring.rules import RULES
from gpushare.overview.connection import ApiSource
from gpushare.overview.gpu_pods import collect_objects
from gpushare.overview.hours import Span
from gpushare.overview.objects import PodOwner
from testbed import DevkitError, until
from testbed.daemons.prometheus import PrometheusServer
from tests.support.fixtures.prometheus import BUSY_MIB, IDLE_MIB, USED_MIB, ScrapedCluster, scraped_cluster
from tests.support.promtool import FILES
from tools.monitoring_files import FOLDER

pytestmark = [pytest.mark.needs("kubelet", "prometheus"), pytest.mark.asyncio(loop_scope="module")]

MIB = 1024 * 1024
CARD, BUSY, IDLE, USED = (mib * MIB for mib in (15079, BUSY_MIB, IDLE_MIB, USED_MIB))
CHOSEN = {
    "$__rate_interval": "1m",
    "$__range": "10m",
    "$__interval": "1s",
    ":5m]": ":1s]",  # The cluster is younger than the steps of sums over days.
    **{f"${choice.name}": ".*" for page in PAGES for choice in page.choices},
}
# In the cluster of these tests are no quotas, and its GPUs are on no NUMA node of the machine.
ABSENT = ("kube_resourcequota", CONTAINER_REMOTE.name)
PANELS = {
    f"{board['title']}: {panel['title']} {target['refId']}": target["expr"]
    for board in (json.loads(path.read_text()) for path in (FOLDER / "dashboards").iterdir())
    for panel in board["panels"]
    for target in panel.get("targets", ())
    if not any(name in target["expr"] for name in ABSENT)
}
"""Without those of kube-state-metrics."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[ScrapedCluster]:
    async with scraped_cluster(FILES) as found:
        yield found


async def records(prometheus: PrometheusServer, record: str, expected: Mapping[Any, float], *by: str) -> None:
    """Wait until the rule has recorded exactly these values."""
    seen: dict[Any, float] = {}

    async def reported() -> bool:
        seen.clear()
        seen.update(await prometheus.values(record, *by))
        return seen == pytest.approx(expected)

    try:
        await until(reported, record, 30, 0.2)
    except DevkitError:
        assert seen == pytest.approx(expected)
        raise


async def test_recorded_values_of_pods_are_exact(scene: ScrapedCluster) -> None:
    for record, busy, idle in (
        ("memory_allocated_bytes:sum", BUSY, IDLE),
        ("memory_used_bytes:sum", USED, 0),
        ("memory_wasted_bytes:difference", BUSY - USED, IDLE),
        ("memory_utilization:ratio", USED / BUSY, 0),
        ("utilization:sum", 0.23, 0),
    ):
        expected = {("t4", "default", "busy"): float(busy), ("t4", "default", "idle"): float(idle)}
        await records(scene.prometheus, f"pod:gpushare_{record}", expected, "node", "namespace", "pod")


@pytest.mark.parametrize("level", ["node", "cluster"])
async def test_recorded_values_of_node_and_cluster_are_exact(scene: ScrapedCluster, level: str) -> None:
    for record, value in (
        ("memory_bytes:sum", 2 * CARD),
        ("memory_allocated_bytes:sum", BUSY + IDLE),
        ("memory_used_bytes:sum", USED),
        ("memory_wasted_bytes:difference", BUSY + IDLE - USED),
        ("memory_utilization:ratio", USED / (BUSY + IDLE)),
        ("memory_allocated:ratio", (BUSY + IDLE) / (2 * CARD)),
        ("utilization:avg", 0.25),
        ("units:sum", 28),
        ("free_units:sum", 18),
    ):
        await records(scene.prometheus, f"{level}:gpushare_{record}", {(): value})


async def test_the_ledger_and_the_allocations_agree(scene: ScrapedCluster) -> None:
    drift = next(alert.expr for alert in ALERTS if alert.name == "GpuShareLedgerDrift")
    assert drift.endswith(" > 0.5")
    difference = f"round({drift.removesuffix(' > 0.5')}, 0.01)"
    await records(scene.prometheus, difference, {("0",): 0, ("1",): 0}, "card")


async def test_every_rule_returns_data(scene: ScrapedCluster) -> None:
    for rule in RULES:
        await until(partial(scene.prometheus.ask, rule.record), f"series of {rule.record}", 10)


async def test_no_rule_and_no_alert_fails(scene: ScrapedCluster) -> None:
    found = {rule["name"]: rule for rule in await scene.prometheus.rules()}
    assert set(found) == {rule.record for rule in RULES} | {alert.name for alert in ALERTS}
    assert {name: rule.get("lastError") for name, rule in found.items() if rule["health"] != "ok"} == {}


@pytest.mark.parametrize("panel", PANELS)
async def test_a_panel_shows_data(scene: ScrapedCluster, panel: str) -> None:
    query = re.sub("|".join(map(re.escape, CHOSEN)), lambda found: CHOSEN[found[0]], PANELS[panel])
    await until(lambda: scene.prometheus.ask(query), f"data of {panel}", 10)


async def test_the_variables_of_the_dashboard_have_values(scene: ScrapedCluster) -> None:
    for page in PAGES:
        for choice in page.choices:
            query = choice.series.replace("$namespace", ".*").replace("$cluster", ".*")
            if choice.name == "cluster":  # one cluster needs no label
                continue
            values = partial(scene.prometheus.values, query, choice.name)
            await until(values, f"values of {choice}", 10)


async def test_a_report_has_the_gpus_and_the_pods(scene: ScrapedCluster) -> None:
    source, url = ApiSource(str(scene.bed.kubeconfig)), scene.prometheus.url
    # Until each series is old enough, the first steps have no value.
    oldest = "min(count_over_time(gpushare_container_memory_used_bytes[10s])) > 6"
    await until(lambda: scene.prometheus.ask(oldest), "series of some seconds", 30, 0.2)

    async def collected() -> UsageFacts | None:
        # A step during a late scrape has no value.
        async with await source.client() as client:
            found = await collect(client, None, url, Span(time.time() - 0.5, 1, 3), cluster=None)
        return found if sum(each.memory for each in found.gpus.values()) == 3 * 2 * CARD else None

    facts = await until(collected, "three steps of two GPUs", 30)
    assert {each.pod: (int(each.allocated), int(each.used)) for each in facts.shares} == {
        "busy": (3 * BUSY, 3 * USED),
        "idle": (3 * IDLE, 0),
    }
    assert facts.owners["default", "busy"] == PodOwner("Pod", "busy")
    assert facts.notes == []


async def test_a_recommendation_follows_the_peak_with_the_rights_of_a_viewer(scene: ScrapedCluster) -> None:
    await scene.bed.apply(as_yaml(viewers.objects(["viewers"])))
    peak = "gpushare_container_memory_counted_peak_bytes"
    await until(lambda: scene.prometheus.ask(peak), "the region of the pod", 30, 0.2)
    source = ApiSource(str(scene.bed.kubeconfig_for("ada", ["viewers"])))
    async with await source.client() as client:
        observed = await observe(client, None, Peaks(scene.prometheus.url, 60), pytest.fail)
        assert [each.metadata.name for each in (await collect_objects(client, None)).nodes] == ["t4"]
        with pytest.raises(ApiError, match=r'"e" not found'):
            await client.request("GET", "/api/v1/namespaces/kube-system/pods/e:1/proxy/metrics", timeout_s=10)
    busy, idle = recommendations(observed, 20, Basis.WINDOW)
    assert (busy.peak, busy.refusals, busy.request, busy.verdict) == (USED, 1, 4, Comparison.RAISE)
    assert (idle.basis, idle.suggestion, idle.request) == (Basis.NOW, None, 6)
