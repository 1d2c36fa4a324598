"""When the agent may serve the GPUs of its node."""

import pytest

from gpushare.deviceplugin.core.node_patch import not_serving_reason
from gpushare.model.local_node import LocalNode
from gpushare.model.options import DeviceListStrategy


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
    assert not_serving_reason(LocalNode("n", labels=labels)) is None


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
    assert reason in (not_serving_reason(LocalNode("n", labels=labels)) or "")


def test_gpus_that_another_plugin_still_offers_are_not_served() -> None:
    reason = not_serving_reason(LocalNode("n", allocatable={"nvidia.com/gpu": 2}))
    assert reason is not None
    assert reason.startswith("another device plugin still offers 2 of nvidia.com/gpu on this node")


@pytest.mark.parametrize(
    ("labels", "remedy"),
    [
        (
            {"nvidia.com/gpu.deploy.device-plugin": "true"},
            "stop it with kubectl label node n nvidia.com/gpu.deploy.device-plugin=false --overwrite",
        ),
        # The operator no longer runs it, so another DaemonSet or a static pod does.
        ({"nvidia.com/gpu.deploy.device-plugin": "false"}, "a DaemonSet with a node affinity"),
        ({}, "a static pod with gpushare node-mode evict"),
    ],
)
def test_the_reason_says_how_to_stop_the_other_plugin(labels: dict[str, str], remedy: str) -> None:
    reason = not_serving_reason(LocalNode("n", labels=labels, allocatable={"nvidia.com/gpu": 2}))
    assert reason is not None
    assert remedy in reason


def test_leftover_capacity_of_an_ended_plugin_is_no_offer() -> None:
    facts = LocalNode("n", capacity={"nvidia.com/gpu": 2}, allocatable={"nvidia.com/gpu": 0})
    assert not_serving_reason(facts) is None


def test_time_sliced_gpus_that_another_plugin_still_offers_are_not_served() -> None:
    reason = not_serving_reason(LocalNode("n", allocatable={"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 8}))
    assert reason is not None
    assert reason.startswith("another device plugin still offers 8 of nvidia.com/gpu.shared on this node")


@pytest.mark.parametrize(
    ("version", "strategy", "serves"),
    [
        ("v1.28.15", DeviceListStrategy.CDI, False),
        ("v1.22.17+k3s1", DeviceListStrategy.CDI, False),
        ("v1.29.0", DeviceListStrategy.CDI, True),
        ("v1.36.3", DeviceListStrategy.CDI, True),
        ("", DeviceListStrategy.CDI, True),
        ("v1.28.15", DeviceListStrategy.MOUNTS, True),
        ("v1.28.15", DeviceListStrategy.ENV, True),
    ],
)
def test_cdi_devices_need_a_kubelet_that_passes_them_on(
    version: str,
    strategy: DeviceListStrategy,
    serves: bool,  # noqa: FBT001
) -> None:
    reason = not_serving_reason(LocalNode("n", kubelet_version=version), strategy)
    assert (reason is None) is serves
    if reason:
        assert f"kubelet {version} ignores CDI devices" in reason
        assert "--device-list-strategy=volume-mounts" in reason
