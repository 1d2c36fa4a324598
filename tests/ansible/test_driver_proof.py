"""Whether a driver works after its change, and when its node is back."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils import driver_proof
from tests.ansible.reports import V100, report

NEW, OLD = "580.65.06", "535.183.01"
BOOT = "3f0c2a1e-0000-4000-8000-000000000001"
H100 = {"slot": "0000:18:00.0", "device": "2330", "name": None, "driver": "nvidia"}
B200 = {**H100, "device": "2901"}
SWITCHES = ["0000:06:00.0", "0000:07:00.0"]
FABRIC = {"nvidia-fabricmanager": {"state": "active", "pid": 9}}


def smi(version: str = NEW, cards: int = 2, error: str | None = None) -> dict[str, Any]:
    return {"version": version, "cards": cards, "error": error}


def test_a_driver_works_with_its_version_and_all_gpus() -> None:
    assert driver_proof.not_working(report(), NEW, 2) == ""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"asked__smi": smi(OLD)}, f"driver {OLD} is loaded, not {NEW}"),
        ({"asked__smi": smi("", 0, "Driver/library version mismatch")}, "Driver/library version mismatch"),
        ({"asked__smi": smi(cards=1)}, "the driver has 1 of 2 GPUs"),
        ({"gpus": [V100], "asked__smi": smi(cards=1)}, "1 of 2 GPUs are on the PCI bus"),
    ],
)
def test_a_driver_that_does_not_work_is_named_with_the_next_step(changes: dict[str, Any], says: str) -> None:
    problem = driver_proof.not_working(report(**changes), NEW, 2)
    assert says in problem
    assert "check `" in problem


def test_gpus_of_virtual_machines_are_not_the_drivers() -> None:
    host = report(gpus=[V100, {**V100, "driver": "vfio-pci"}], asked__smi=smi(cards=1))
    assert driver_proof.not_working(host, NEW, 1) == ""


@pytest.mark.parametrize("board", [{"gpus": [H100] * 2, "nvswitches": SWITCHES}, {"gpus": [B200] * 2}])
def test_boards_with_a_fabric_need_its_manager(board: dict[str, Any]) -> None:
    assert "nvidia-fabricmanager is absent, so CUDA fails with error 802" in driver_proof.not_working(
        report(**board), NEW, 2
    )
    assert driver_proof.not_working(report(**board, services=FABRIC), NEW, 2) == ""


def test_only_boards_of_blackwell_need_the_subnet_manager() -> None:
    assert driver_proof.has_fabric(report(gpus=[H100], nvswitches=SWITCHES))
    assert not driver_proof.has_subnet_manager(report(gpus=[H100], nvswitches=SWITCHES))
    assert driver_proof.has_subnet_manager(report(gpus=[B200]))
    assert not driver_proof.has_fabric(report(gpus=[H100]))


def node(**status: Any) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    amounts = {"aliyun.com/gpu-mem": "62"}
    whole = {"conditions": ready, "nodeInfo": {"bootID": BOOT}, "capacity": amounts, "allocatable": amounts}
    return {"metadata": {"name": "gpu-1", "labels": {"gpushare": "true"}}, "status": {**whole, **status}}


NOTHING = {"aliyun.com/gpu-mem": "0"}


def test_what_a_node_offers_depends_on_its_mode() -> None:
    assert driver_proof.offer_before(node(), interrupted=False) == "aliyun.com/gpu-mem"
    assert driver_proof.offer_before(node(allocatable=NOTHING), interrupted=False) == ""
    whole = node(allocatable={"nvidia.com/gpu": "2"})
    whole["metadata"]["labels"] = {}
    assert driver_proof.offer_before(whole, interrupted=False) == "nvidia.com/gpu"


def test_after_an_interrupted_run_the_capacity_tells_what_a_node_offered() -> None:
    after = node(allocatable=NOTHING, capacity=NOTHING)
    assert driver_proof.offer_before(after, interrupted=True) == "aliyun.com/gpu-mem"
    assert driver_proof.offer_before(node(capacity={}, allocatable={}), interrupted=True) == ""


def test_a_node_is_back_when_its_kubelet_of_this_boot_is_ready_and_offers_gpus() -> None:
    assert driver_proof.not_back(node(), BOOT, "aliyun.com/gpu-mem") == ""


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ({"nodeInfo": {"bootID": "before"}}, "has not reported since the reboot"),
        ({"conditions": [{"type": "Ready", "status": "Unknown"}]}, "is not Ready"),
        ({"allocatable": NOTHING}, "does not offer aliyun.com/gpu-mem again"),
        ({"allocatable": None}, "does not offer aliyun.com/gpu-mem again"),
    ],
)
def test_a_node_that_is_not_back_is_named_with_the_next_step(status: dict[str, Any], says: str) -> None:
    assert says in driver_proof.not_back(node(**status), BOOT, "aliyun.com/gpu-mem")


def test_a_kubelet_that_reports_no_boot_is_taken_as_that_of_this_one() -> None:
    assert driver_proof.not_back(node(nodeInfo={"bootID": ""}), BOOT, "") == ""
