"""Labels and taints of a node by mode, and when its pods must be evicted first."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.node_mode import SWITCHING, cards_of, plan
from gpushare.contract import ANN_CARDS, ANN_OPERATOR_PLUGIN, LABEL_OPERATOR_PLUGIN

LABELS = {"gpushare": "true", "cgpu": "true"}
OFF = {"gpushare": "false", "cgpu": "false"}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OTHER = {"key": "other", "effect": "NoExecute"}


def node(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": labels or {}, "annotations": {}}, "spec": spec}


def wanted(mode: str = "share", **changes: Any) -> dict[str, Any]:
    fixed = {"keys": ["gpushare", "cgpu"], "schedule": "share", "placement": "", "labels": {}}
    return {**fixed, "mode": mode, "taints": [], "removed_taints": [], **changes}


def test_a_correct_node_is_not_changed() -> None:
    made = plan(node(LABELS), wanted(), [])
    assert (made["switches"], made["close"], made["finish"]) == (False, {}, {})


@pytest.mark.parametrize(
    ("labels", "mode", "switches"),
    [
        ({}, "share", True),
        ({}, "whole", False),
        (LABELS, "whole", True),
        (OFF, "share", True),
        (OFF, "whole", False),
        ({"ack.node.gpu.schedule": "default"}, "share", True),
        ({"ack.node.gpu.schedule": "mps"}, "share", False),
        ({"cgpu": "false"}, "share", True),
    ],
)
def test_a_node_switches_if_its_labels_have_the_other_mode(
    labels: dict[str, str], mode: str, *, switches: bool
) -> None:
    assert plan(node(labels), wanted(mode), [])["switches"] is switches


def test_a_node_is_cordoned_first_and_uncordoned_with_its_labels() -> None:
    made = plan(node(OFF), wanted(), [])
    assert made["close"] == {
        "metadata": {"annotations": {SWITCHING: "share"}},
        "spec": {"unschedulable": True},
    }
    assert made["finish"] == {
        "metadata": {"labels": LABELS, "annotations": {SWITCHING: None}},
        "spec": {"unschedulable": None},
    }


def test_a_node_with_another_cordon_stays_cordoned() -> None:
    made = plan(node(OFF, unschedulable=True), wanted(), [])
    assert made["switches"] is True
    assert (made["close"], made["finish"]) == ({}, {"metadata": {"labels": LABELS}})


def test_a_node_of_an_interrupted_run_is_drained_and_uncordoned() -> None:
    half = node(OFF, unschedulable=True)
    half["metadata"]["annotations"] = {SWITCHING: "share"}
    made = plan(half, wanted(), [])
    assert (made["switches"], made["close"]) == (True, {})
    assert made["finish"]["spec"] == {"unschedulable": None}


def test_unused_mode_labels_are_removed() -> None:
    made = plan(node(LABELS), wanted(keys=["ack.node.gpu.schedule"], schedule="cgpu"), [])
    assert made["finish"]["metadata"]["labels"] == {
        "gpushare": None,
        "cgpu": None,
        "ack.node.gpu.schedule": "cgpu",
    }


def test_other_taints_are_kept_and_ours_are_replaced_by_key_and_effect() -> None:
    shown = [OTHER, {**TAINT, "value": "old"}, {"key": "gone", "effect": "NoSchedule"}]
    made = plan(node(LABELS, taints=shown), wanted(taints=[TAINT], removed_taints=["gone"]), [])
    assert made["finish"]["spec"] == {"taints": [OTHER, TAINT]}
    again = plan(node(LABELS, taints=[OTHER, TAINT]), wanted(taints=[TAINT], removed_taints=["gone"]), [])
    assert again["finish"] == {}


def test_gpus_have_the_labels_of_ack_until_the_agent_publishes_them() -> None:
    cards = [{"model": "Tesla V100-SXM2-16GB", "mib": 16384}] * 2
    made = plan(node(LABELS), wanted(), cards)
    assert made["finish"]["metadata"]["labels"] == {
        "aliyun.accelerator/nvidia_name": "Tesla-V100-SXM2-16GB",
        "aliyun.accelerator/nvidia_mem": "16384MiB",
        "aliyun.accelerator/nvidia_count": "2",
    }
    publishing = node(LABELS)
    publishing["metadata"]["annotations"] = {ANN_CARDS: "[]"}
    assert plan(publishing, wanted(), cards)["finish"] == {}


def test_other_output_of_nvidia_smi_has_no_gpus() -> None:
    assert cards_of("Tesla T4, 15360\nNVIDIA A100-SXM4-80GB, 81920\n") == [
        {"model": "Tesla T4", "mib": 15360},
        {"model": "NVIDIA A100-SXM4-80GB", "mib": 81920},
    ]
    assert cards_of("NVIDIA-SMI has failed, because\nNo devices were found\nTesla T4, [N/A]\n") == []


def managed(labels: dict[str, str], plugin: str | None, before: str | None = None) -> dict[str, Any]:
    """A node of the GPU Operator, with the label of its plugin and the annotation with the former value."""
    plugin_label = {} if plugin is None else {LABEL_OPERATOR_PLUGIN: plugin}
    made = node({**labels, "nvidia.com/gpu.deploy.driver": "true", **plugin_label})
    made["metadata"]["annotations"] = {} if before is None else {ANN_OPERATOR_PLUGIN: before}
    return made


@pytest.mark.parametrize("before", ["true", "", None])
def test_a_node_that_is_shared_stops_the_plugin_of_the_operator_and_keeps_the_former_label(
    before: str | None,
) -> None:
    finish = plan(managed(OFF, before), wanted(), [])["finish"]
    assert finish["metadata"]["labels"][LABEL_OPERATOR_PLUGIN] == "false"
    assert finish["metadata"]["annotations"] == {ANN_OPERATOR_PLUGIN: before or "", SWITCHING: None}


def test_the_plugin_of_the_operator_is_stopped_on_a_node_that_was_labelled_by_hand() -> None:
    made = plan(managed(LABELS, "true"), wanted(), [])
    assert made["switches"] is False
    assert made["finish"]["metadata"] == {
        "labels": {LABEL_OPERATOR_PLUGIN: "false"},
        "annotations": {ANN_OPERATOR_PLUGIN: "true"},
    }


@pytest.mark.parametrize(("before", "restored"), [("true", "true"), ("", None), ("mine", "mine")])
def test_a_node_that_is_given_back_has_its_former_label(before: str, restored: str | None) -> None:
    finish = plan(managed(LABELS, "false", before), wanted("whole"), [])["finish"]
    assert finish["metadata"]["labels"][LABEL_OPERATOR_PLUGIN] == restored
    assert finish["metadata"]["annotations"][ANN_OPERATOR_PLUGIN] is None


def test_a_node_that_is_shared_and_given_back_is_as_before() -> None:
    """Apart from the mode labels: what the role adds it removes."""
    first = managed(OFF, "true")
    shared = merged(first, plan(first, wanted(), [])["finish"])
    assert plan(shared, wanted(), [])["finish"] == {}
    assert merged(shared, plan(shared, wanted("whole"), [])["finish"])["metadata"] == first["metadata"]


def merged(shown: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The node after a merge patch of its metadata."""
    metadata = dict(shown["metadata"])
    for part, changes in patch["metadata"].items():
        values = {**metadata[part], **changes}
        metadata[part] = {key: value for key, value in values.items() if value is not None}
    return {**shown, "metadata": metadata}


@pytest.mark.parametrize(
    ("shown", "mode"),
    [
        (node(LABELS), "share"),
        (managed(LABELS, "false"), "share"),
        (managed(LABELS, "false", "true"), "share"),
        (managed(OFF, "false"), "whole"),
        (managed(OFF, "true"), "whole"),
    ],
    ids=["no operator", "stopped by others", "stopped", "stopped by others, whole", "whole"],
)
def test_labels_of_the_operator_that_need_no_change_stay(shown: dict[str, Any], mode: str) -> None:
    assert plan(shown, wanted(mode), [])["finish"] == {}


@pytest.mark.parametrize("value", ["paused-for-driver-upgrade", "mine_paused-for-driver-upgrade"])
def test_a_node_is_not_changed_while_the_operator_changes_its_driver(value: str) -> None:
    refusal = plan(managed(OFF, value), wanted(), [])["refusal"]
    assert f"{LABEL_OPERATOR_PLUGIN}={value}" in refusal
    assert "wait" in refusal
    assert plan(managed(OFF, value), wanted("whole"), [])["refusal"] == ""
    assert plan(managed(OFF, "true"), wanted(), [])["refusal"] == ""
