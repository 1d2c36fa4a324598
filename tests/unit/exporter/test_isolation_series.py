"""Series of limited containers: counts of the library beside those of the driver."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from gpushare.exporter.snapshot import NodeSnapshot
from gpushare.model.readings import Readings
from tests.support.builders.scheduling import main
from tests.unit.exporter.builders import (
    MIB,
    gpu_pod,
    isolation,
    limit,
    limited,
    other_pod,
    process,
    reading,
    ref,
    shared,
    snapshot,
    use,
    values,
)

PREFIX = "gpushare_container_memory"
UNHELD = "gpushare_card_unheld_processes"
OWN = ("limit_bytes", "counted_bytes", "counted_peak_bytes", "refusals", "uncounted_bytes", "unseen_bytes")


def of(found: NodeSnapshot, what: str) -> dict[str, float]:
    """A number of containers by their pods; bytes in MiB."""
    unit = MIB if what.endswith("_bytes") else 1
    return {pod: number / unit for pod, number in values(found, f"{PREFIX}_{what}", "pod").items()}


def busy(used_mib: int = 1000, **more: Any) -> NodeSnapshot:
    """Pod a is limited and has PID 10 (1 inside), which uses 1000 MiB; pod b is limited and idle."""
    found = snapshot(
        [reading(0, process(10, used_mib))],
        [gpu_pod("a"), gpu_pod("b")],
        [shared("a"), shared("b")],
        {10: ref("a")},
        isolation=isolation(limited("a", use(900, 1200, 3), pids=[1]), limited("b"), inner_pids={10: 1}),
    )
    return replace(found, **more)


def test_counted_memory_is_exported_with_the_limit() -> None:
    assert of(busy(), "limit_bytes") == {"a": 4308, "b": 4308}
    assert of(busy(), "counted_bytes") == {"a": 900, "b": 0}
    assert of(busy(), "counted_peak_bytes") == {"a": 1200, "b": 0}
    assert of(busy(), "refusals") == {"a": 3, "b": 0}


def test_what_refused_requests_need_is_exported() -> None:
    refused = limited("a", use(900, 1200, 2, 4500, 5121), pids=[1])
    found = busy(isolation=isolation(refused, limited("b")))
    assert of(found, "refused_bytes") == {"a": 4500}
    assert of(found, "needed_bytes") == {"a": 5121}


def test_a_size_beyond_the_gpu_in_a_region_is_not_exported() -> None:
    forged = limited("a", use(900, 1200, 2, 15080, 2**43), pids=[1])
    found = busy(isolation=isolation(forged, limited("b")))
    assert (of(found, "refused_bytes"), of(found, "needed_bytes")) == ({}, {})


def test_the_labels_are_those_of_all_series_of_containers() -> None:
    labels = ("node", "namespace", "pod", "container", "card", "uuid")
    for what in OWN:
        assert ("n", "ml", "a", "main", "0", "GPU-0") in values(busy(), f"{PREFIX}_{what}", *labels)


@pytest.mark.parametrize(
    ("driver", "uncounted", "unseen"), [(1000, 100, 0), (900, 0, 0), (0, 0, 900), (4000, 3100, 0)]
)
def test_the_difference_to_the_driver_is_exported_in_both_directions(
    driver: int, uncounted: int, unseen: int
) -> None:
    assert of(busy(driver), "uncounted_bytes") == {"a": uncounted, "b": 0}
    assert of(busy(driver), "unseen_bytes") == {"a": unseen, "b": 0}


@pytest.mark.parametrize(
    ("driver", "uncounted", "unseen"), [(200, 0, 700), (500, 300, 400), (0, 0, 900), (1000, 800, 0)]
)
def test_managed_memory_hides_no_uncounted_memory(driver: int, uncounted: int, unseen: int) -> None:
    """700 of the 900 MiB are managed, which the driver does not report."""
    counted = limited("a", use(900), use(5, card=1), pids=[1, 2])
    assert counted.region
    processes = tuple(replace(each, managed=(350 * MIB, MIB)) for each in counted.region.processes)
    region = replace(counted.region, processes=processes)
    found = busy(driver, isolation=isolation(replace(counted, region=region), inner_pids={10: 1}))
    assert of(found, "uncounted_bytes") == {"a": uncounted}
    assert of(found, "unseen_bytes") == {"a": unseen}


def test_all_processes_of_a_container_count_against_its_region() -> None:
    both = snapshot(
        [reading(0, process(10, 1000), process(11, 500))],
        [gpu_pod("a")],
        [shared("a")],
        {10: ref("a"), 11: ref("a")},
        isolation=isolation(limited("a", use(900))),
    )
    assert of(both, "uncounted_bytes") == {"a": 600}


def test_a_forged_mirror_does_not_get_the_numbers_of_the_pod_with_its_uid() -> None:
    forged = replace(other_pod("forged"), uid="a-uid", mirror=True)
    found = snapshot([reading(0)], [gpu_pod("a"), forged], isolation=isolation(limited("a", use(900))))
    assert of(found, "counted_bytes") == {"a": 900}


def test_a_container_has_numbers_of_each_of_its_gpus() -> None:
    on_two = limited("a", use(1), use(2, card=1), limits=[limit(4), limit(2, card=1)])
    found = snapshot([reading(0), reading(1)], [gpu_pod("a")], isolation=isolation(on_two))
    assert values(found, f"{PREFIX}_counted_bytes", "card") == {"0": MIB, "1": 2 * MIB}
    assert values(found, f"{PREFIX}_limit_bytes", "card") == {"0": 4308 * MIB, "1": 15079 * 2 // 14 * MIB}


def test_an_invalid_region_leaves_the_limit_only() -> None:
    damaged = replace(limited("a"), region=None, problem="no region")
    found = busy(isolation=isolation(damaged, inner_pids={10: 1}))
    assert {what for what in OWN if of(found, what)} == {"limit_bytes"}
    assert values(found, "gpushare_exporter_unreadable_regions") == {(): 1}
    assert values(found, UNHELD, "card") == {"0": 0}


def test_a_gpu_that_the_driver_does_not_report_has_no_series() -> None:
    elsewhere = limited("a", use(1, card=7), limits=[limit(card=7)])
    assert {what for what in OWN if of(busy(isolation=isolation(elsewhere)), what)} == set()


@pytest.mark.parametrize("pods", [[], [gpu_pod("a", finished=True)]], ids=["unknown", "finished"])
def test_a_leftover_directory_of_a_pod_has_no_series(pods: list[object]) -> None:
    found = busy(local_pods=tuple(pods))
    assert {what for what in OWN if "a" in of(found, what)} == set()


def test_a_process_with_a_slot_in_a_region_is_limited() -> None:
    assert values(busy(), UNHELD, "card") == {"0": 0}


@pytest.mark.parametrize(
    ("where", "inner", "count"),
    [
        (None, 11, 1),
        (ref("a"), 2, 1),
        (ref("b"), 1, 1),
        (ref("free"), 1, 1),
        (ref("a"), 1, 0),
        (ref("gone"), 1, 0),
        (ref("a"), None, 0),
        (ref("a", "starting"), 1, 0),
    ],
    ids=[
        "of no pod",
        "without the library",
        "in an unused region",
        "of a pod without limits",
        "known",
        "of a pod that is unknown",
        "ended",
        "of a container without a name",
    ],
)
def test_processes_without_a_limit_are_counted(where: object, inner: int | None, count: int) -> None:
    known = isolation(
        limited("a", use(1), pids=[1]), limited("b"), inner_pids={11: inner} if inner is not None else {}
    )
    found = busy(
        readings=Readings((reading(0, process(11, 5)),)),
        local_pods=(gpu_pod("a"), gpu_pod("b"), gpu_pod("free")),
        containers_by_pid={11: where},
        isolation=known,
    )
    assert values(found, UNHELD, "card") == {"0": count}


@pytest.mark.parametrize(("namespace", "count"), [("kube-system", 0), ("ml", 1)])
def test_only_processes_of_the_mps_daemon_count_as_mps_servers(namespace: str, count: int) -> None:
    daemon = replace(gpu_pod("mps", main(0, name="gpushare-mps")), namespace=namespace)
    found = busy(
        readings=Readings((reading(0, process(11, 5)),)),
        local_pods=(gpu_pod("a"), daemon),
        containers_by_pid={11: ref("mps", "gpushare-mps")},
        isolation=isolation(limited("a", use(1)), inner_pids={11: 11}),
    )
    assert values(found, UNHELD, "card") == {"0": count}


def test_gpus_without_limited_containers_have_no_count_of_processes() -> None:
    assert values(busy(isolation=isolation()), UNHELD, "card") == {}
    assert values(busy(isolation=None), UNHELD, "card") == {}


def test_a_source_that_is_down_loses_its_series() -> None:
    complete = {what for what in OWN if of(busy(), what)}
    assert complete == set(OWN)
    for down in product((False, True), repeat=4):
        parts = ("readings", "containers_by_pid", "local_pods", "isolation")
        missing = {name for name, is_down in zip(parts, down, strict=True) if is_down}
        found = replace(busy(), **dict.fromkeys(missing))  # type: ignore[arg-type]
        reported = {what for what in OWN if of(found, what)}
        if missing & {"readings", "local_pods", "isolation"}:
            assert reported == set()
        elif missing:
            assert reported == complete - {"uncounted_bytes", "unseen_bytes"}
        assert bool(values(found, UNHELD, "card")) == (not missing)
