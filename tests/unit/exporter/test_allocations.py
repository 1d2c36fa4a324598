"""Allocated units by container and GPU."""

from dataclasses import replace

import pytest

from gpushare.contract import RESOURCE_MEM
from gpushare.exporter.allocations import CardAllocation, ContainerName, allocations
from gpushare.exporter.snapshot import NodeSnapshot
from gpushare.model.cards import Card
from gpushare.model.devices import ContainerDevices
from gpushare.model.modes import Mode
from gpushare.model.objects import Node
from tests.support.builders.scheduling import init, main, sidecar
from tests.unit.exporter.builders import MIB, T4, gpu_pod, node, reading, shared, snapshot, whole

FOUR = 15079 * 4 // 14
"""MiB of 4 of the 14 units of a T4: the example of the ACK documentation."""


def allocated_mib(found: NodeSnapshot) -> dict[tuple[str, str, str], float]:
    """MiB by pod, container and GPU."""
    return {
        (each.container.pod, each.container.container, each.uuid): each.allocated_bytes / MIB
        for each in allocations(found)
    }


def test_4_units_of_a_t4_are_4308_mib() -> None:
    assert FOUR == 4308
    found = snapshot([reading()], [gpu_pod("a")], [shared("a")])
    assert list(allocations(found)) == [CardAllocation(ContainerName("ml", "a", "main"), "GPU-0", 4308 * MIB)]


def test_the_pod_annotations_override_the_device_ids_of_the_kubelet() -> None:
    found = snapshot([reading(0), reading(1)], [gpu_pod("a", card=1)], [shared("a", card=0)])
    assert allocated_mib(found) == {("a", "main", "GPU-1"): FOUR}


def test_the_node_annotation_overrides_the_pod_annotations() -> None:
    annotated = node(2, assigned={"a-uid": {1: 4}})
    found = snapshot([reading(0), reading(1)], [gpu_pod("a", card=0)], [shared("a")], node=annotated)
    assert allocated_mib(found) == {("a", "main", "GPU-1"): FOUR}


def test_the_node_annotation_names_a_static_pod_by_its_uid_in_the_api() -> None:
    annotated = node(2, assigned={"mirror-uid": {1: 4}})
    found = snapshot(
        [reading(0), reading(1)], [gpu_pod("a", card=0, uid="mirror-uid")], [shared("a")], node=annotated
    )
    assert allocated_mib(found) == {("a", "main", "GPU-1"): FOUR}


@pytest.mark.parametrize("pods", [[], [gpu_pod("a", card=None)]], ids=["pod not seen", "no annotations"])
def test_without_annotations_the_ids_decide(pods: list[object]) -> None:
    found = snapshot([reading(0), reading(1)], devices=[shared("a", card=1)], local_pods=pods)  # type: ignore[arg-type]
    assert allocated_mib(found) == {("a", "main", "GPU-1"): FOUR}


def test_short_ids_name_the_gpu_by_its_index() -> None:
    devices = ContainerDevices("ml", "a", "main", RESOURCE_MEM, frozenset({"1-0", "1-1"}))
    found = snapshot([reading(0), reading(1)], devices=[devices])
    assert allocated_mib(found) == {("a", "main", "GPU-1"): T4 * 2 // 14}


@pytest.mark.parametrize("identifier", ["", "-", "GPU-unknown-_-1", "x", "99999999-1", "7-1"])
def test_ids_that_name_no_gpu_are_no_allocation(identifier: str) -> None:
    devices = ContainerDevices("ml", "a", "main", RESOURCE_MEM, frozenset({identifier}))
    assert allocated_mib(snapshot([reading()], devices=[devices])) == {}


def test_several_containers_have_separate_amounts() -> None:
    pod = gpu_pod("a", main(4, name="one"), main(2, name="two"))
    devices = [shared("a", 4, container="one"), shared("a", 2, container="two")]
    found = snapshot([reading()], [pod], devices)
    assert allocated_mib(found) == {("a", "one", "GPU-0"): FOUR, ("a", "two", "GPU-0"): T4 * 2 // 14}


def test_a_pod_on_several_gpus_has_equal_units_of_each() -> None:
    pod = gpu_pod("a", main(8), card=(0, 1), cards_label="2")
    found = snapshot([reading(0), reading(1)], [pod], [shared("a", 8)])
    assert allocated_mib(found) == {("a", "main", "GPU-0"): FOUR, ("a", "main", "GPU-1"): FOUR}


def test_a_whole_gpu_is_all_of_it() -> None:
    found = snapshot([reading(0), reading(1)], devices=[whole("a", 1)])
    assert allocated_mib(found) == {("a", "main", "GPU-1"): T4}


def test_whole_gpus_are_known_without_the_api_server() -> None:
    found = replace(snapshot([reading()], devices=[whole("a", 0)]), node=None, local_pods=None)
    assert allocated_mib(found) == {("a", "main", "GPU-0"): T4}


def test_a_time_sliced_gpu_is_exported_once() -> None:
    devices = replace(whole("a", 0), ids=frozenset({"GPU-0::3", "GPU-0::4"}))
    assert allocated_mib(snapshot([reading()], devices=[devices])) == {("a", "main", "GPU-0"): T4}


def test_a_finished_pod_has_no_units_while_the_kubelet_still_lists_it() -> None:
    assert allocated_mib(snapshot([reading()], [gpu_pod("a", finished=True)], [shared("a")])) == {}


def test_without_the_kubelet_running_containers_have_the_units_of_the_annotations() -> None:
    pod = gpu_pod("a", init(4), sidecar(1), main(4))
    assert pod.gpu_pod
    after_init = replace(pod, gpu_pod=replace(pod.gpu_pod, running=frozenset({"main", "side"})))
    found = snapshot([reading()], [after_init])
    assert allocated_mib(replace(found, devices=None)) == {
        ("a", "side", "GPU-0"): T4 // 14,
        ("a", "main", "GPU-0"): FOUR,
    }


def test_core_is_a_compute_share_only_where_compute_is_divided() -> None:
    pod = gpu_pod("a", main(4, 25))
    found = snapshot([reading()], [pod], [shared("a")], node=node(mode=Mode.CORE_MEM))
    assert [each.core for each in allocations(found)] == [0.25]
    found = snapshot([reading()], [pod], [shared("a")], node=node(mode=Mode.SHARE))
    assert [each.core for each in allocations(found)] == [0.0]


def test_with_the_aliyun_plugin_the_size_of_a_gpu_is_that_of_the_driver() -> None:
    aliyun = Node("n", (Card(0, 14), Card(1, 14)))
    found = snapshot([reading(0), reading(1)], [gpu_pod("a", card=1)], [shared("a")], node=aliyun)
    assert allocated_mib(found) == {("a", "main", "GPU-1"): FOUR}


def test_a_gpu_that_is_not_read_is_not_exported() -> None:
    found = snapshot([reading(0)], [gpu_pod("a", card=1)], [shared("a", card=1)], node=node(2))
    assert allocated_mib(found) == {}


def test_without_the_node_units_have_no_size() -> None:
    assert allocated_mib(snapshot([reading()], [gpu_pod("a")], [shared("a")], node=None)) == {}
