"""Every alert fires and is resolved, as computed by Prometheus."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpushare.monitoring.alerts import ALERTS
from tests.support.promtool import FILES, Asked, check, promtool
from tools.monitoring_files import FOLDER

SEVERITY = {alert.name: alert.severity for alert in ALERTS}
SUMMARY = {alert.name: alert.summary for alert in ALERTS}
UNHEALTHY = 'instance="n",uuid="GPU-0",rule="needs_recovery"'
ON_CARD = 'node="n",card="0",uuid="GPU-0"'
SHARE = 'node="n",namespace="ml",pod="p",container="c",card="0",uuid="GPU-0"'
SHARE2 = SHARE.replace('pod="p"', 'pod="q"')
MIB = 1024 * 1024
EXPIRY = "gpushare_extender_certificate_expiration_timestamp_seconds"
API_EXPIRY = "gpushare_metrics_api_certificate_expiration_timestamp_seconds"
WEBHOOK_EXPIRY = "gpushare_scheduler_name_certificate_expiration_timestamp_seconds"
BOARD_EXPIRY = "gpushare_board_certificate_expiration_timestamp_seconds"
DAY_S = 86_400


@dataclass(frozen=True)
class Case:
    """Series by the minute; the alert is quiet, fires and is resolved at these minutes."""

    alert: str
    series: Mapping[str, str]
    quiet: int
    fires: int
    resolved: int
    labels: str = ""
    why: str = ""


CASES = [
    Case(
        "NodeClosed",
        {'gpushare_device_plugin_closed{instance="n"}': "0x5 1x20 0x5"},
        14,
        17,
        27,
        'instance="n"',
    ),
    Case(
        "ClosedNodeInUse",
        {'gpushare_closed_node_pods{node="n"}': "0x5 2x25 0x5"},
        18,
        22,
        32,
        'node="n"',
    ),
    Case(
        "ContainersRejected",
        {'gpushare_device_plugin_allocations_total{instance="n",result="record"}': "0x5 1+1x9 9x30"},
        8,
        15,
        30,
        'instance="n",result="record"',
    ),
    Case(
        "MpsDown",
        {'gpushare_mps_up{instance="n",uuid="GPU-0"}': "1x5 0x5 1x5"},
        6,
        8,
        12,
        'instance="n",uuid="GPU-0"',
    ),
    Case(
        "MpsRestarts",
        {'gpushare_mps_starts_total{instance="n",uuid="GPU-0"}': "1x20 2x1 3x1 4x1 5x80"},
        20,
        26,
        70,
        'instance="n",uuid="GPU-0"',
    ),
    Case("ExtenderDown", {'gpushare_extender_leader{instance="a"}': "1x5 stale _x14 1x10"}, 10, 12, 22),
    Case(
        "NoBinder",
        {
            'gpushare_extender_leader{instance="a"}': "1x5 0x10 1x10",
            'gpushare_extender_leader{instance="b"}': "0x30",
        },
        7,
        9,
        18,
    ),
    Case(
        "ManyBinders",
        {
            'gpushare_extender_leader{instance="a"}': "1x30",
            'gpushare_extender_leader{instance="b"}': "0x5 1x10 0x10",
        },
        7,
        9,
        18,
    ),
    Case(
        "BindsFail",
        {
            'gpushare_extender_requests_total{verb="bind",result="ok"}': "0+10x80",
            'gpushare_extender_requests_total{verb="bind",result="error"}': "0x20 10+30x20 610x60",
            'gpushare_extender_requests_total{verb="filter",result="ok"}': "0+1000x80",
        },
        30,
        40,
        60,
    ),
    Case(
        "CertificateExpires",
        {
            f'{EXPIRY}{{certificate="server",instance="a"}}': f"{30 * DAY_S + 600}x120 {90 * DAY_S}x60",
            f'{EXPIRY}{{certificate="server",instance="b"}}': f"{90 * DAY_S}x180",
        },
        60,
        80,
        130,
        'certificate="server"',
        "of one replica",
    ),
    Case(
        "CertificateExpires",
        {f'{EXPIRY}{{certificate="system:kube-scheduler"}}': f"{10 * DAY_S}x120 {90 * DAY_S}x60"},
        50,
        80,
        130,
        'certificate="system:kube-scheduler"',
        "of the scheduler",
    ),
    Case(
        "CertificateExpiresSoon",
        {f'{EXPIRY}{{certificate="server",instance="a"}}': f"{7 * DAY_S + 600}x40 {90 * DAY_S}x60"},
        15,
        25,
        50,
        'certificate="server"',
    ),
    Case(
        "MetricsCertificateExpires",
        {
            f'{API_EXPIRY}{{instance="a"}}': f"{30 * DAY_S + 600}x120 {90 * DAY_S}x60",
            f'{API_EXPIRY}{{instance="b"}}': f"{90 * DAY_S}x180",
        },
        60,
        80,
        130,
    ),
    Case(
        "WebhookCertificateExpires",
        {
            f'{WEBHOOK_EXPIRY}{{instance="a"}}': f"{30 * DAY_S + 600}x120 {90 * DAY_S}x60",
            f'{WEBHOOK_EXPIRY}{{instance="b"}}': f"{90 * DAY_S}x180",
        },
        60,
        80,
        130,
    ),
    Case(
        "BoardCertificateExpires",
        {f'{BOARD_EXPIRY}{{instance="a"}}': f"{30 * DAY_S + 600}x120 {90 * DAY_S}x60"},
        60,
        80,
        130,
    ),
    Case(
        "VersionsDiffer",
        {
            'gpushare_build_info{instance="a",version="1.0.0"}': "1x180 stale",
            'gpushare_build_info{instance="b",version="1.1.0"}': "_x10 1x290",
        },
        100,
        140,
        220,
    ),
    Case("Overcommitted", {'gpushare_cards_overcommitted{instance="a"}': "0x5 1 0x100"}, 5, 30, 70),
    Case(
        "LedgerDrift",
        {
            f"gpushare_card_memory_bytes{{{ON_CARD}}}": "1400x60",
            f"gpushare_container_memory_allocated_bytes{{{SHARE}}}": "399x60",
            'gpushare_card_units{node="n",card="0"}': "14x60",
            'gpushare_card_free_units{node="n",card="0"}': "10x5 6x24 10x30",
        },
        15,
        18,
        40,
        'node="n",card="0"',
        "reserved and not allocated",
    ),
    Case(
        "LedgerDrift",
        {
            f"gpushare_card_memory_bytes{{{ON_CARD}}}": "1400x60",
            'gpushare_card_units{node="n",card="0"}': "14x60",
            'gpushare_card_free_units{node="n",card="0"}': "14x5 10x24 14x30",
        },
        15,
        18,
        40,
        'node="n",card="0"',
        "nothing allocated on the GPU",
    ),
    Case(
        "CardUnhealthy",
        {f"gpushare_device_plugin_card_unhealthy{{{UNHEALTHY}}}": "_x6 1x5 stale"},
        6,
        8,
        13,
        UNHEALTHY,
    ),
    Case(
        "CardXid",
        {f'gpushare_card_xid_errors_total{{{ON_CARD},xid="79"}}': "_x5 1x60"},
        4,
        6,
        25,
        f'{ON_CARD},xid="79"',
        "the first",
    ),
    Case(
        "CardXid",
        {f'gpushare_card_xid_errors_total{{{ON_CARD},xid="31"}}': "1x20 2x40"},
        19,
        22,
        40,
        f'{ON_CARD},xid="31"',
        "another",
    ),
    Case(
        "PacingStale",
        {
            'gpushare_device_plugin_pacing_sample_age_seconds{instance="n"}': "1x5 61+60x14 1x10",
            'gpushare_device_plugin_pacing_sample_age_seconds{instance="m"}': "1x5 100 1x30",
        },
        10,
        12,
        22,
        'instance="n"',
    ),
    Case(
        "RegionResized",
        {'gpushare_device_plugin_regions_resized_total{instance="n",change="grown"}': "_x5 1x60"},
        4,
        6,
        25,
        'instance="n",change="grown"',
        "the first",
    ),
    Case(
        "RegionResized",
        {'gpushare_device_plugin_regions_resized_total{instance="n",change="cut"}': "1x20 2x40"},
        19,
        22,
        40,
        'instance="n",change="cut"',
        "another",
    ),
    Case(
        "DriverDown",
        {
            'gpushare_device_plugin_nvml_up{instance="n"}': "1x5 0x10 1x5",
            'gpushare_device_plugin_nvml_up{instance="m"}': "1x5 0 1x14",
        },
        7,
        9,
        18,
        'instance="n"',
    ),
    Case(
        "PluginNotRegistered",
        {
            'gpushare_device_plugin_registered{instance="n",resource="aliyun.com/gpu-mem"}': "1x5 0x10 1x5",
            'gpushare_device_plugin_registered{instance="m",resource="aliyun.com/gpu-mem"}': "1x20",
        },
        10,
        12,
        18,
        'instance="n",resource="aliyun.com/gpu-mem"',
    ),
    Case(
        "TargetDown",
        {
            'up{job="agents",instance="n"}': "1x5 0x20 1x10",
            'gpushare_device_plugin_nvml_up{job="agents",instance="n"}': "1x5 stale _x19 1x10",
            'up{job="other",instance="n"}': "0x40",
        },
        10,
        12,
        28,
        'job="agents",instance="n"',
    ),
    Case(
        "SourceDown",
        {
            'gpushare_exporter_source_up{instance="n",source="nvml"}': "1x5 0x20 1x10",
            'gpushare_exporter_source_up{instance="n",source="pods"}': "1x40",
        },
        15,
        17,
        28,
        'instance="n",source="nvml"',
    ),
    Case(
        "MemoryNearLimit",
        {
            f"gpushare_container_memory_used_bytes{{{SHARE}}}": "90x5 96x10 50x10",
            f"gpushare_container_memory_allocated_bytes{{{SHARE}}}": "100x30",
            f"gpushare_card_memory_bytes{{{ON_CARD}}}": "200x30",
        },
        10,
        12,
        18,
        SHARE,
    ),
    Case(
        "MemoryUncounted",
        {
            f"gpushare_container_memory_uncounted_bytes{{{SHARE}}}": f"{100 * MIB}x5 {1100 * MIB}x10 0x10",
            f"gpushare_container_memory_limit_bytes{{{SHARE}}}": f"{4308 * MIB}x30",
        },
        10,
        12,
        18,
        SHARE,
    ),
    Case(
        "MemoryRefused",
        {f"gpushare_container_memory_refusals_total{{{SHARE}}}": "0x5 1 1x5 2x5 3x5 4x5 5x5 6x5 7x5 7x40"},
        33,
        42,
        75,
        SHARE,
    ),
    Case(
        "ProcessNotHeld",
        {f"gpushare_card_unheld_processes{{{ON_CARD}}}": "0x5 1x10 0x10"},
        10,
        12,
        18,
        ON_CARD,
    ),
    Case(
        "Idle",
        {
            f"gpushare_container_utilization_ratio{{{SHARE}}}": "0.5x5 0x70 0.1x10",
            f"gpushare_container_memory_allocated_bytes{{{SHARE}}}": "100x90",
        },
        65,
        67,
        80,
        'node="n",namespace="ml",pod="p"',
    ),
    Case(
        "Fragmented",
        {
            'gpushare_card_free_units{node="n",card="0"}': "8x5 6x40 14x10",
            'gpushare_card_free_units{node="n",card="1"}': "6x60",
            'gpushare_pods_pending_min_units{instance="a"}': "8x60",
            'gpushare_pods_pending_min_units{instance="b"}': "8x60",
        },
        20,
        22,
        50,
    ),
]

QUIET = {
    "a whole-GPU container may use all memory": {
        f"gpushare_container_memory_used_bytes{{{SHARE}}}": "200x99",
        f"gpushare_container_memory_allocated_bytes{{{SHARE}}}": "200x99",
        f"gpushare_card_memory_bytes{{{ON_CARD}}}": "200x99",
        f"gpushare_container_utilization_ratio{{{SHARE}}}": "1x99",
    },
    "overhead of the driver: half a GiB of a large limit, or all of a small one": {
        f"gpushare_container_memory_uncounted_bytes{{{SHARE}}}": f"{600 * MIB}x99",
        f"gpushare_container_memory_limit_bytes{{{SHARE}}}": f"{4308 * MIB}x99",
        f"gpushare_container_memory_uncounted_bytes{{{SHARE2}}}": f"{400 * MIB}x99",
        f"gpushare_container_memory_limit_bytes{{{SHARE2}}}": f"{400 * MIB}x99",
    },
    "one refused request, or a counter that begins above 0": {
        f"gpushare_container_memory_refusals_total{{{SHARE}}}": "7x40 8x60",
        f"gpushare_container_memory_refusals_total{{{SHARE2}}}": "_x50 3x49",
    },
    "an exporter without the allocations reports no drift": {
        f"gpushare_card_memory_bytes{{{ON_CARD}}}": "1400x99",
        'gpushare_exporter_source_up{source="pods"}': "0x99",
        'gpushare_card_units{node="n",card="0"}': "14x99",
        'gpushare_card_free_units{node="n",card="0"}': "10x99",
    },
    "a pod requests more units than the cluster has free": {
        'gpushare_card_free_units{node="n",card="0"}': "3x99",
        'gpushare_card_free_units{node="n",card="1"}': "3x99",
        'gpushare_pods_pending_min_units{instance="a"}': "8x99",
    },
    "a replica that the scheduler has not called since its certificate was renewed": {
        f'{EXPIRY}{{certificate="system:kube-scheduler",instance="a"}}': f"{90 * DAY_S}x99",
        f'{EXPIRY}{{certificate="system:kube-scheduler",instance="b"}}': f"{DAY_S}x99",
    },
    "two healthy replicas": {
        'gpushare_extender_leader{instance="b"}': "0x99",
        'gpushare_cards_overcommitted{instance="a"}': "0x99",
        'gpushare_cards_overcommitted{instance="b"}': "0x99",
        'gpushare_device_plugin_registered{instance="n"}': "1x99",
        'up{job="extender",instance="a"}': "1x99",
    },
}
LEADER = {'gpushare_extender_leader{instance="a"}': "1x99"}


def firing(alert: str) -> str:
    return f'ALERTS{{alertname="GpuShare{alert}",alertstate="firing"}}'


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert} {case.why}".strip())
def test_an_alert_fires_and_is_resolved(case: Case, tmp_path: Path) -> None:
    name = f"GpuShare{case.alert}"
    labels = f'alertname="{name}",alertstate="firing",severity="{SEVERITY[name]}"'
    fired = f"ALERTS{{{','.join(filter(None, [labels, case.labels]))}}}"
    expr = firing(case.alert)
    asked = [Asked(expr, case.quiet, {}), Asked(expr, case.fires, {fired: 1}), Asked(expr, case.resolved, {})]
    check(tmp_path, case.series, asked)


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("why", QUIET)
def test_no_alert_fires_without_a_problem(why: str, tmp_path: Path) -> None:
    quiet = Asked('ALERTS{alertstate="firing",alertname!="GpuShareSourceDown"}', 90, {})
    check(tmp_path, {**LEADER, **QUIET[why]}, [quiet])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert} {case.why}".strip())
def test_a_summary_uses_existing_labels(case: Case) -> None:
    """A target has the label of its node by ``scrape.yaml`` and by the PodMonitor."""
    named = set(re.findall(r"\$labels\.(\w+)", SUMMARY[f"GpuShare{case.alert}"]))
    existing = set(re.findall(r'(\w+)="', case.labels))
    assert named <= existing | ({"node"} if "instance" in existing else set())


@pytest.mark.needs("promtool")
def test_a_cluster_without_an_extender_is_found_beside_one_that_has_it(tmp_path: Path) -> None:
    series = {
        'gpushare_extender_leader{cluster="a",instance="x"}': "1x30",
        'gpushare_device_plugin_nvml_up{cluster="a",instance="n"}': "1x30",
        'gpushare_device_plugin_nvml_up{cluster="b",instance="n"}': "1x30",
    }
    fired = 'ALERTS{alertname="GpuShareExtenderDown",alertstate="firing",cluster="b",severity="critical"}'
    check(tmp_path, series, [Asked(firing("ExtenderDown"), 10, {fired: 1})])


@pytest.mark.needs("promtool")
def test_replicas_of_two_clusters_are_not_two_leaders(tmp_path: Path) -> None:
    series = {f'gpushare_extender_leader{{cluster="{name}",instance="x"}}': "1x30" for name in "ab"}
    check(tmp_path, series, [Asked(firing("ManyBinders"), 20, {})])


def test_every_alert_is_tested() -> None:
    assert {f"GpuShare{case.alert}" for case in CASES} == {alert.name for alert in ALERTS}


@pytest.mark.needs("promtool")
def test_prometheus_accepts_the_files(tmp_path: Path) -> None:
    assert "SUCCESS" in promtool("check", "rules", *FILES)
    scrapes = yaml.safe_load((FOLDER / "scrape.yaml").read_text())
    for job in scrapes["scrape_configs"]:
        # Debian builds Prometheus without Kubernetes.
        assert job.pop("kubernetes_sd_configs")
        assert job["honor_labels"]
    config = tmp_path / "prometheus.yml"
    config.write_text(yaml.safe_dump(scrapes))
    assert "SUCCESS" in promtool("check", "config", config)
