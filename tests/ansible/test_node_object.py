"""The comparison of a Node with this machine, and the owner of its cordon."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.node_object import (
    cordon,
    is_cordoned_by,
    not_this_machine,
    uncordon,
)

ANNOTATION = "gpushare.io/driver-change"
ID, OTHER_ID = "3d1219c7c4c5404aaa1f6d2a48adfda4", "0000000000000000000000000000000b"
UUID = "4c4c4544-0042-3510-8052-b4c04f313233"
OURS = {"f:metadata": {"f:annotations": {f"f:{ANNOTATION}": {}}}, "f:spec": {"f:unschedulable": {}}}


def node(*managers: dict[str, Any], annotated: bool = True, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "gpu-1", "annotations": {ANNOTATION: "580.65.06"} if annotated else {}}
    managed = [{"manager": f"m{number}", "fieldsV1": each} for number, each in enumerate(managers)]
    return {"metadata": {**metadata, "managedFields": managed}, "spec": spec}


def machine(**info: str) -> dict[str, Any]:
    return {"metadata": {"name": "gpu-1"}, "status": {"nodeInfo": info}}


def test_a_machine_is_identified_by_the_ids_that_node_and_host_both_have() -> None:
    host = {"machineID": ID, "systemUUID": UUID}
    assert not_this_machine(machine(machineID=ID, systemUUID=UUID.upper()), host, "c") == ""
    assert not_this_machine(machine(machineID=ID, systemUUID=""), host, "c") == ""
    assert not_this_machine(machine(machineID=ID, systemUUID=UUID), {"machineID": ID}, "c") == ""


@pytest.mark.parametrize(
    "host", [{"machineID": OTHER_ID, "systemUUID": UUID}, {"machineID": ID, "systemUUID": OTHER_ID}]
)
def test_one_different_id_is_another_machine_because_clones_share_the_other(host: dict[str, str]) -> None:
    problem = not_this_machine(machine(machineID=ID, systemUUID=UUID), host, "the cluster of x")
    assert problem.startswith("node gpu-1 of the cluster of x is another machine")
    for identity in (ID, UUID, OTHER_ID):
        assert identity in problem


def test_a_node_without_ids_is_refused() -> None:
    assert "cannot be compared" in not_this_machine({"metadata": {"name": "n"}}, {"machineID": ID}, "c")


def test_a_cordon_is_ours_if_one_request_set_it_and_the_annotation() -> None:
    made = node(OURS, {"f:spec": {"f:podCIDR": {}}}, unschedulable=True)
    assert is_cordoned_by(made, ANNOTATION)
    assert uncordon(made, ANNOTATION) == {
        "metadata": {"annotations": {ANNOTATION: None}},
        "spec": {"unschedulable": None},
    }


def test_a_cordon_of_another_manager_is_kept_despite_an_old_annotation() -> None:
    left = {"f:metadata": OURS["f:metadata"]}
    made = node(left, {"f:spec": OURS["f:spec"]}, unschedulable=True)
    assert not is_cordoned_by(made, ANNOTATION)
    assert uncordon(made, ANNOTATION) == {"metadata": {"annotations": {ANNOTATION: None}}}
    assert cordon(made, ANNOTATION, "x") == {}


def test_a_node_without_the_annotation_is_not_uncordoned() -> None:
    assert uncordon(node(OURS, annotated=False, unschedulable=True), ANNOTATION) == {}


def test_without_managers_the_annotation_decides() -> None:
    assert is_cordoned_by(node(unschedulable=True), ANNOTATION)
    assert not is_cordoned_by(node(), ANNOTATION)


def test_a_cordon_is_annotated() -> None:
    assert cordon(node(annotated=False), ANNOTATION, "580.65.06") == {
        "metadata": {"annotations": {ANNOTATION: "580.65.06"}},
        "spec": {"unschedulable": True},
    }
