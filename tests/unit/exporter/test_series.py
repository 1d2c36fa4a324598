"""From a snapshot to series, with the names of DCGM and ours."""

from dataclasses import fields, replace
from itertools import product

import pytest

from gpushare.exporter.series import series_of
from gpushare.exporter.snapshot import CpuState, NodeSnapshot
from gpushare.model.readings import CardReading, ProcessReading, Readings
from gpushare.monitoring import catalogue
from tests.unit.exporter.builders import (
    MIB,
    T4,
    gpu_pod,
    isolation,
    limited,
    other_pod,
    process,
    reading,
    ref,
    shared,
    snapshot,
    use,
    values,
    whole,
)

SM = "DCGM_CUSTOM_PROCESS_SM_UTIL"
USED = "DCGM_CUSTOM_PROCESS_MEM_USED"
ALLOCATED = "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED"


def busy() -> NodeSnapshot:
    """Pod a computes on GPU 0 with two processes, pod b is idle there."""
    return snapshot(
        [reading(0, process(10, 1000, 20), process(11, 24, 3))],
        [gpu_pod("a"), gpu_pod("b")],
        [shared("a"), shared("b")],
        {10: ref("a"), 11: ref("a")},
    )


def names(found: NodeSnapshot) -> set[str]:
    return {each.metric.name for each in series_of(found)}


# --- labels -------------------------------------------------------------------------------------


def test_the_labels_of_dcgm_metrics_are_exact() -> None:
    (series,) = [each for each in series_of(busy()) if each.metric.name == SM]
    label, value = series.points[0]
    assert dict(zip(series.metric.labels, label, strict=True)) == {
        "NodeName": "n",
        "NamespaceName": "ml",
        "PodName": "a",
        "ContainerName": "main",
        "UUID": "GPU-0",
        "gpu": "0",
        "device": "nvidia0",
        "modelName": "Tesla T4",
    }
    assert value == 23


def test_all_points_have_all_labels_and_no_two_have_the_same() -> None:
    for each_process in (False, True):
        for series in series_of(busy(), each_process=each_process):
            labels = [label for label, _ in series.points]
            assert {len(label) for label in labels} == {len(series.metric.labels)}
            assert len(set(labels)) == len(labels)


def test_a_gpu_with_all_values_has_every_metric_of_the_catalogue() -> None:
    optional = [field.name for field in fields(CardReading) if field.default is None]
    known = {name: 1 for name in optional if name not in ("processes", "xids")}
    card = reading(0, process(10, 1000, 20), xids={31: 1}, **known)
    found = snapshot(
        [card],
        [gpu_pod("a")],
        [shared("a")],
        {10: ref("a")},
        isolation=isolation(limited("a", replace(use(1000), refused=1, needed=1))),
        cpus=CpuState({10: frozenset({0})}, {"GPU-0": frozenset({0})}),
        at=1.0,
        took_s={"nvml": 0.1},
        failures={"nvml": 2},
    )
    found = replace(found, readings=Readings((card,), driver="580.65.06", cuda="13.0"))
    assert {each.metric for each in series_of(found)} == {*catalogue.COMMON, *catalogue.EXPORTER}


def test_the_driver_is_known_even_without_a_cuda_version() -> None:
    found = replace(busy(), readings=Readings((), driver="418.87"))
    assert values(found, "gpushare_driver_info", "node", "driver", "cuda") == {("n", "418.87", ""): 1}


def test_beside_dcgm_exporter_only_its_metrics_are_left_out() -> None:
    alone, beside = (
        {each.metric.name for each in series_of(busy(), dcgm_devices=shown)} for shown in (True, False)
    )
    left_out = alone - beside
    assert left_out
    assert all(name.startswith("DCGM_FI_DEV_") for name in left_out)
    assert not any(name.startswith("DCGM_FI_DEV_") for name in beside)


def test_pids_are_exported_only_on_request() -> None:
    assert "pid" not in {label for each in series_of(busy()) for label in each.metric.labels}
    assert values(busy(), USED, "PodName", "pid", each_process=True) == {
        ("a", "10"): 1000,
        ("a", "11"): 24,
        ("b", ""): 0,
    }
    assert values(busy(), "gpushare_container_memory_used_bytes", "pod", each_process=True) == {
        "a": 1024 * MIB,
        "b": 0,
    }


# --- containers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpus", "beside", "expected"),
    [
        ({10: {0, 1}, 11: {0}}, {0, 1, 2, 3}, {"a": 0}),
        ({10: {3, 4}, 11: {3}}, {0, 1, 2, 3}, {"a": 0}),
        ({10: {4, 5}, 11: {0}}, {0, 1, 2, 3}, {"a": 1}),
        ({11: {0}}, {0, 1, 2, 3}, {"a": 0}),
        ({}, {0, 1, 2, 3}, {}),
        ({10: {4}}, None, {}),
    ],
    ids=["beside", "both", "remote process", "ended process", "no process", "unknown NUMA node"],
)
def test_a_container_is_remote_if_its_cpus_are_all_on_other_numa_nodes(
    cpus: dict[int, set[int]], beside: set[int] | None, expected: dict[str, float]
) -> None:
    state = CpuState(
        {pid: frozenset(each) for pid, each in cpus.items()},
        {"GPU-0": frozenset(beside)} if beside else {},
    )
    assert values(replace(busy(), cpus=state), "gpushare_container_cpus_remote", "pod") == expected


def test_processes_outside_pods_have_no_cpus_to_compare() -> None:
    state = CpuState({7: frozenset({4})}, {"GPU-0": frozenset({0})})
    found = snapshot([reading(0, process(7, 100))], containers_by_pid={7: None}, cpus=state)
    assert values(found, "gpushare_container_cpus_remote", "pod") == {}


def test_an_idle_container_is_0_and_not_missing() -> None:
    assert values(busy(), SM, "PodName") == {"a": 23, "b": 0}
    assert values(busy(), USED, "PodName") == {"a": 1024, "b": 0}
    assert values(busy(), ALLOCATED, "PodName") == {"a": 4308, "b": 4308}
    assert values(busy(), "gpushare_container_utilization_ratio", "pod") == {"a": 0.23, "b": 0}


def test_a_whole_gpu_pod_has_the_series_of_a_pod_with_units() -> None:
    found = snapshot(
        [reading(0, process(7, 15343))], [other_pod("bert")], [whole("bert", 0)], {7: ref("bert")}
    )
    assert values(found, USED, "PodName") == {"bert": 15343}
    assert values(found, ALLOCATED, "PodName") == {"bert": T4}
    assert values(found, "DCGM_CUSTOM_CONTAINER_CP_ALLOCATED", "PodName") == {"bert": 0}


def test_a_process_in_no_pod_has_no_names() -> None:
    found = snapshot([reading(0, process(7, 100, 5))], containers_by_pid={7: None})
    assert values(found, USED, "NamespaceName", "PodName", "ContainerName") == {("", "", ""): 100}


def test_a_process_in_a_pod_without_units_has_the_names_of_the_pod() -> None:
    found = snapshot([reading(0, process(7, 100))], [other_pod("x")], containers_by_pid={7: ref("x")})
    assert values(found, USED, "PodName") == {"x": 100}
    assert values(found, ALLOCATED, "PodName") == {}


def test_a_process_that_has_ended_or_has_an_unknown_pod_has_no_owner() -> None:
    found = snapshot(
        [reading(0, process(7, 100), process(8, 50))], [gpu_pod("a")], containers_by_pid={7: ref("gone")}
    )
    assert values(found, USED, "PodName") == {}


def test_a_forged_mirror_does_not_get_the_usage_of_the_pod_with_its_uid() -> None:
    forged = replace(other_pod("forged"), uid="a-uid", mirror=True)
    found = snapshot([reading(0, process(7, 100))], [gpu_pod("a"), forged], containers_by_pid={7: ref("a")})
    assert values(found, USED, "PodName") == {"a": 100}


def test_a_container_missing_from_the_api_is_found_by_its_pod() -> None:
    pod = replace(gpu_pod("a"), containers={})
    found = snapshot([reading(0, process(7, 100))], [pod], containers_by_pid={7: ref("a")})
    assert values(found, USED, "PodName", "ContainerName") == {("a", ""): 100}


def test_a_process_with_unknown_memory_makes_the_sum_unknown() -> None:
    unknown = ProcessReading(11, None, None)
    found = snapshot(
        [reading(0, process(10, 100, 5), unknown)],
        [gpu_pod("a")],
        [shared("a")],
        {10: ref("a"), 11: ref("a")},
    )
    assert values(found, USED, "PodName") == {}
    assert values(found, SM, "PodName") == {}
    assert values(found, ALLOCATED, "PodName") == {"a": 4308}


def test_a_gpu_without_a_process_list_has_no_usage_of_pods() -> None:
    found = snapshot([reading(0, processes=None)], [gpu_pod("a")], [shared("a")])
    assert {SM, USED} & names(found) == set()
    assert values(found, ALLOCATED, "PodName") == {"a": 4308}


def test_the_accelerators_of_a_container_have_the_series_of_cadvisor() -> None:
    found = snapshot([reading(0, used_bytes=5 * MIB, gpu_percent=40)], [gpu_pod("a")], [shared("a")])
    labels = ("pod", "make", "model", "acc_id")
    key = ("a", "nvidia", "Tesla T4", "GPU-0")
    assert values(found, "container_accelerator_memory_total_bytes", *labels) == {key: T4 * MIB}
    assert values(found, "container_accelerator_memory_used_bytes", *labels) == {key: 5 * MIB}
    assert values(found, "container_accelerator_duty_cycle", *labels) == {key: 40}


def test_a_container_with_a_gpu_twice_has_one_series() -> None:
    found = snapshot([reading(0)], [gpu_pod("a")], [shared("a"), whole("a", 0)])
    (series,) = [each for each in series_of(found) if each.metric.name == ALLOCATED]
    assert [value for _, value in series.points] == [T4]


# --- GPUs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "reported", "source", "in_source", "own", "in_own"),
    [
        ("gpu_percent", 23, "GPU_UTIL", 23, "utilization_ratio", 0.23),
        ("memory_percent", 7, "MEM_COPY_UTIL", 7, "memory_utilization_ratio", 0.07),
        ("encoder_percent", 1, "ENC_UTIL", 1, "encoder_utilization_ratio", 0.01),
        ("decoder_percent", 2, "DEC_UTIL", 2, "decoder_utilization_ratio", 0.02),
        ("used_bytes", 3 * MIB, "FB_USED", 3, "memory_used_bytes", 3 * MIB),
        ("celsius", 32, "GPU_TEMP", 32, "temperature_celsius", 32),
        ("memory_celsius", 40, "MEMORY_TEMP", 40, "memory_temperature_celsius", 40),
        ("power_mw", 55_500, "POWER_USAGE", 55.5, "power_watts", 55.5),
        ("power_limit_mw", 300_000, "ENFORCED_POWER_LIMIT", 300, "power_limit_watts", 300),
        ("energy_mj", 1500, "TOTAL_ENERGY_CONSUMPTION", 1500, "energy_joules", 1.5),
        ("sm_mhz", 1590, "SM_CLOCK", 1590, "sm_clock_hertz", 1_590_000_000),
        ("memory_mhz", 5001, "MEM_CLOCK", 5001, "memory_clock_hertz", 5_001_000_000),
        ("pcie_tx_kb", 12, "PCIE_TX_THROUGHPUT", 12, "pcie_transmit_bytes_per_second", 12_000),
        ("pcie_rx_kb", 13, "PCIE_RX_THROUGHPUT", 13, "pcie_receive_bytes_per_second", 13_000),
        ("pcie_replays", 4, "PCIE_REPLAY_COUNTER", 4, "pcie_replays", 4),
    ],
)
def test_a_value_is_exported_in_the_unit_of_dcgm_and_in_base_units(
    field: str, reported: int, source: str, in_source: float, own: str, in_own: float
) -> None:
    found = snapshot([reading(0, **{field: reported})])
    assert values(found, f"DCGM_FI_DEV_{source}", "gpu") == {"0": in_source}
    assert values(found, f"gpushare_card_{own}", "card") == {"0": in_own}
    if field != "used_bytes":
        without = names(snapshot([reading(0)]))
        assert {f"DCGM_FI_DEV_{source}", f"gpushare_card_{own}"} & without == set()


def test_errors_are_exported_by_kind() -> None:
    card = reading(
        0,
        ecc_corrected=1,
        ecc_uncorrected=2,
        ecc_corrected_ever=3,
        ecc_uncorrected_ever=4,
        remapped_corrected=5,
        remapped_uncorrected=6,
        remap_failed=True,
        last_xid=48,
        xids={31: 2, 48: 1},
    )
    found = snapshot([card])
    assert values(found, "gpushare_card_ecc_errors", "kind") == {"corrected": 1, "uncorrected": 2}
    assert values(found, "gpushare_card_remapped_rows", "kind") == {"corrected": 5, "uncorrected": 6}
    assert values(found, "gpushare_card_xid_errors", "xid") == {"31": 2, "48": 1}
    assert values(found, "DCGM_FI_DEV_XID_ERRORS", "gpu") == {"0": 48}
    assert values(found, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "gpu") == {"0": 4}
    assert values(found, "DCGM_FI_DEV_ROW_REMAP_FAILURE", "gpu") == {"0": 1}


def test_the_device_is_the_one_in_dev() -> None:
    assert values(snapshot([reading(0, minor=3)]), "DCGM_FI_DEV_FB_USED", "device") == {"nvidia3": 0}


# --- sources ------------------------------------------------------------------------------------


def test_a_source_that_is_down_loses_its_series_and_is_reported() -> None:
    all_names = names(busy())
    without = {
        "pods": replace(busy(), local_pods=None),
        "cgroups": replace(busy(), containers_by_pid=None),
        "node": replace(busy(), node=None),
    }
    lost = {source: all_names - names(found) for source, found in without.items()}
    use = {SM, USED, "gpushare_container_utilization_ratio", "gpushare_container_memory_used_bytes"}
    assert lost["pods"] == lost["cgroups"] == use
    assert ALLOCATED in lost["node"]
    assert not use & lost["node"], "usage is known without the node"
    down = replace(busy(), containers_by_pid=None)
    up = {"nvml": 1, "cgroups": 0, "pod-resources": 1, "pods": 1, "node": 1, "isolation": 1, "cpus": 1}
    assert values(down, "gpushare_exporter_source_up", "source") == up


def test_missing_sources_remove_series_and_add_none() -> None:
    """All combinations of sources that are down; some sources can replace others for the allocations."""
    all_names = names(busy())
    for down in product((False, True), repeat=5):
        parts = zip(("readings", "containers_by_pid", "devices", "local_pods", "node"), down, strict=True)
        found = busy()
        for field, is_down in parts:
            if is_down:
                found = replace(found, **{field: None})  # type: ignore[arg-type]
        assert names(found) <= all_names
        for series in series_of(found):
            labels = [label for label, _ in series.points]
            assert len(set(labels)) == len(labels)
        assert set(values(found, ALLOCATED, "PodName").values()) <= {4308}
        assert values(found, SM, "PodName") in ({}, {"a": 23}, {"a": 23, "b": 0})


def test_without_a_driver_only_series_of_the_exporter_remain() -> None:
    assert names(replace(busy(), readings=None)) == {
        "gpushare_build_info",
        "gpushare_exporter_source_up",
        "gpushare_exporter_unreadable_regions",
    }


def test_gpus_that_cannot_be_read_are_counted() -> None:
    found = replace(busy(), readings=Readings((), {0: "GPU is lost"}))
    assert values(found, "gpushare_exporter_unreadable_cards") == {(): 1}
    assert values(found, "DCGM_FI_DEV_FB_USED", "gpu") == {}
