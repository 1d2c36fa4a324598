"""What a node's object is to say in a mode: labels, taints, and when it must be emptied first."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.node_mode import SWITCHING, cards_of, plan
from gpushare.contract import ANN_CARDS

LABELS = {"gpushare": "true", "cgpu": "true"}
OFF = {"gpushare": "false", "cgpu": "false"}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OTHER = {"key": "other", "effect": "NoExecute"}


def node(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": labels or {}, "annotations": {}}, "spec": spec}


def wanted(mode: str = "share", **changes: Any) -> dict[str, Any]:
    fixed = {"keys": ["gpushare", "cgpu"], "schedule": "share", "placement": "", "labels": {}}
    return {**fixed, "mode": mode, "taints": [], "removed_taints": [], **changes}


def test_a_node_as_it_should_be_is_left_alone() -> None:
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
def test_a_node_changes_sides_where_its_labels_say_the_other(
    labels: dict[str, str], mode: str, *, switches: bool
) -> None:
    assert plan(node(labels), wanted(mode), [])["switches"] is switches


def test_a_node_is_closed_before_and_opened_in_the_write_that_labels_it() -> None:
    made = plan(node(OFF), wanted(), [])
    assert made["close"] == {
        "metadata": {"annotations": {SWITCHING: "share"}},
        "spec": {"unschedulable": True},
    }
    assert made["finish"] == {
        "metadata": {"labels": LABELS, "annotations": {SWITCHING: None}},
        "spec": {"unschedulable": None},
    }


def test_a_node_that_somebody_else_closed_stays_closed() -> None:
    made = plan(node(OFF, unschedulable=True), wanted(), [])
    assert made["switches"] is True
    assert (made["close"], made["finish"]) == ({}, {"metadata": {"labels": LABELS}})


def test_a_node_that_an_interrupted_run_closed_is_emptied_and_opened() -> None:
    half = node(OFF, unschedulable=True)
    half["metadata"]["annotations"] = {SWITCHING: "share"}
    made = plan(half, wanted(), [])
    assert (made["switches"], made["close"]) == (True, {})
    assert made["finish"]["spec"] == {"unschedulable": None}


def test_labels_of_a_mode_that_are_not_wanted_go() -> None:
    made = plan(node(LABELS), wanted(keys=["ack.node.gpu.schedule"], schedule="cgpu"), [])
    assert made["finish"]["metadata"]["labels"] == {
        "gpushare": None,
        "cgpu": None,
        "ack.node.gpu.schedule": "cgpu",
    }


def test_taints_of_others_stay_and_ours_are_replaced_by_key_and_effect() -> None:
    shown = [OTHER, {**TAINT, "value": "old"}, {"key": "gone", "effect": "NoSchedule"}]
    made = plan(node(LABELS, taints=shown), wanted(taints=[TAINT], removed_taints=["gone"]), [])
    assert made["finish"]["spec"] == {"taints": [OTHER, TAINT]}
    again = plan(node(LABELS, taints=[OTHER, TAINT]), wanted(taints=[TAINT], removed_taints=["gone"]), [])
    assert again["finish"] == {}


def test_cards_are_told_as_ack_tells_them_until_the_agent_does() -> None:
    cards = [{"model": "Tesla V100-SXM2-16GB", "mib": 16384}] * 2
    made = plan(node(LABELS), wanted(), cards)
    assert made["finish"]["metadata"]["labels"] == {
        "aliyun.accelerator/nvidia_name": "Tesla-V100-SXM2-16GB",
        "aliyun.accelerator/nvidia_mem": "16384MiB",
        "aliyun.accelerator/nvidia_count": "2",
    }
    told = node(LABELS)
    told["metadata"]["annotations"] = {ANN_CARDS: "[]"}
    assert plan(told, wanted(), cards)["finish"] == {}


def test_a_driver_that_says_something_else_has_no_cards() -> None:
    assert cards_of("Tesla T4, 15360\nNVIDIA A100-SXM4-80GB, 81920\n") == [
        {"model": "Tesla T4", "mib": 15360},
        {"model": "NVIDIA A100-SXM4-80GB", "mib": 81920},
    ]
    assert cards_of("NVIDIA-SMI has failed, because\nNo devices were found\nTesla T4, [N/A]\n") == []
