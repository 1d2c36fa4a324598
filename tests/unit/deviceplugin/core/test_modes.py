"""When the agent may serve the GPUs of its node."""

import pytest

from gpushare.deviceplugin.core.node_patch import not_serving_reason
from gpushare.model.own_node import OwnNode


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"gpushare": "true"},
        {"cgpu": "true"},
        {"ack.node.gpu.schedule": "cgpu"},
        {"ack.node.gpu.schedule": "core_mem"},
        {"ack.node.gpu.schedule": "share", "gpushare": "false"},
    ],
)
def test_a_node_that_shares_is_served(labels: dict[str, str]) -> None:
    assert not_serving_reason(OwnNode("n", labels=labels)) is None


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"cgpu": "false"}, "label cgpu=false"),
        ({"gpushare": "false"}, "label gpushare=false"),
        ({"ack.node.gpu.schedule": "default"}, "means whole GPUs"),
        ({"ack.node.gpu.schedule": "topology"}, "means whole GPUs"),
        ({"ack.node.gpu.schedule": "shared"}, "'shared' is not one of"),
    ],
)
def test_a_node_that_allocates_whole_gpus_is_not_served(labels: dict[str, str], reason: str) -> None:
    assert reason in (not_serving_reason(OwnNode("n", labels=labels)) or "")


def test_gpus_that_another_plugin_still_offers_are_not_served() -> None:
    reason = not_serving_reason(OwnNode("n", allocatable={"nvidia.com/gpu": 2}))
    assert reason is not None
    assert reason.startswith("another device plugin still offers 2 of nvidia.com/gpu on this node")


def test_leftover_capacity_of_an_ended_plugin_is_no_offer() -> None:
    facts = OwnNode("n", capacity={"nvidia.com/gpu": 2}, allocatable={"nvidia.com/gpu": 0})
    assert not_serving_reason(facts) is None


def test_time_sliced_gpus_that_another_plugin_still_offers_are_not_served() -> None:
    reason = not_serving_reason(OwnNode("n", allocatable={"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 8}))
    assert reason is not None
    assert reason.startswith("another device plugin still offers 8 of nvidia.com/gpu.shared on this node")
