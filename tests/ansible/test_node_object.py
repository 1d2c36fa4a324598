"""Whether a Node is this machine's, and whose cordon it has."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.node_object import (
    cordon,
    is_cordoned_by,
    not_this_machine,
    uncordon,
)

NOTE = "gpushare.io/driver-change"
ID, OTHER_ID = "3d1219c7c4c5404aaa1f6d2a48adfda4", "0000000000000000000000000000000b"
UUID = "4c4c4544-0042-3510-8052-b4c04f313233"
OURS = {"f:metadata": {"f:annotations": {f"f:{NOTE}": {}}}, "f:spec": {"f:unschedulable": {}}}


def node(*managers: dict[str, Any], note: bool = True, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "gpu-1", "annotations": {NOTE: "580.65.06"} if note else {}}
    managed = [{"manager": f"m{number}", "fieldsV1": each} for number, each in enumerate(managers)]
    return {"metadata": {**metadata, "managedFields": managed}, "spec": spec}


def machine(**info: str) -> dict[str, Any]:
    return {"metadata": {"name": "gpu-1"}, "status": {"nodeInfo": info}}


def test_a_machine_is_known_by_what_node_and_host_both_tell() -> None:
    host = {"machineID": ID, "systemUUID": UUID}
    assert not_this_machine(machine(machineID=ID, systemUUID=UUID.upper()), host, "c") == ""
    assert not_this_machine(machine(machineID=ID, systemUUID=""), host, "c") == ""
    assert not_this_machine(machine(machineID=ID, systemUUID=UUID), {"machineID": ID}, "c") == ""


@pytest.mark.parametrize(
    "host", [{"machineID": OTHER_ID, "systemUUID": UUID}, {"machineID": ID, "systemUUID": OTHER_ID}]
)
def test_one_id_that_differs_is_another_machine_as_clones_share_the_other(host: dict[str, str]) -> None:
    told = not_this_machine(machine(machineID=ID, systemUUID=UUID), host, "the cluster of x")
    assert told.startswith("node gpu-1 of the cluster of x is another machine")
    for identity in (ID, UUID, OTHER_ID):
        assert identity in told


def test_a_node_that_cannot_be_compared_is_not_taken_for_the_host() -> None:
    assert "cannot be compared" in not_this_machine({"metadata": {"name": "n"}}, {"machineID": ID}, "c")


def test_a_cordon_is_ours_where_one_write_made_it_and_the_note() -> None:
    made = node(OURS, {"f:spec": {"f:podCIDR": {}}}, unschedulable=True)
    assert is_cordoned_by(made, NOTE)
    assert uncordon(made, NOTE) == {
        "metadata": {"annotations": {NOTE: None}},
        "spec": {"unschedulable": None},
    }


def test_the_cordon_of_somebody_else_stays_though_an_old_note_is_there() -> None:
    left = {"f:metadata": OURS["f:metadata"]}
    made = node(left, {"f:spec": OURS["f:spec"]}, unschedulable=True)
    assert not is_cordoned_by(made, NOTE)
    assert uncordon(made, NOTE) == {"metadata": {"annotations": {NOTE: None}}}
    assert cordon(made, NOTE, "x") == {}


def test_a_node_without_the_note_is_not_uncordoned() -> None:
    assert uncordon(node(OURS, note=False, unschedulable=True), NOTE) == {}


def test_without_managers_the_note_decides() -> None:
    assert is_cordoned_by(node(unschedulable=True), NOTE)
    assert not is_cordoned_by(node(), NOTE)


def test_a_cordon_says_whose_it_is() -> None:
    assert cordon(node(note=False), NOTE, "580.65.06") == {
        "metadata": {"annotations": {NOTE: "580.65.06"}},
        "spec": {"unschedulable": True},
    }
