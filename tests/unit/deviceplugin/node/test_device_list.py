"""How the agent follows what its node can do."""

import json
from pathlib import Path

import pytest

from gpushare.contract import ANN_DEVICE_LIST
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.deviceplugin.node.device_list import DeviceListMonitor
from gpushare.deviceplugin.node.state import NodeState
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.model.local_node import LocalNode
from gpushare.model.options import DeviceListStrategy, MemoryUnit
from tests.support.builders.gpu_pods import cards

CDI, MOUNTS = DeviceListStrategy.CDI, DeviceListStrategy.MOUNTS
NODE = LocalNode("n", kubelet_version="v1.36.3", runtime_version="containerd://2.2.9")


class Here:
    """A node with one GPU and a folder of specifications."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "nvidia.json"
        self.state = NodeState("n")
        self.state.apply_gpus(SharedGpus(MemoryUnit.GIB, cards(14)))
        self.monitor = self.started()

    def started(self) -> DeviceListMonitor:
        return DeviceListMonitor(AgentSettings(cdi_folders=(self.file.parent,)), self.state)

    async def follow(self, node: LocalNode = NODE) -> DeviceListStrategy:
        await self.monitor.read()
        self.monitor.apply_node(node)
        return self.state.device_list.strategy

    def describe(self, *names: str) -> None:
        devices = [{"name": name, "containerEdits": {}} for name in names]
        spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}
        self.file.write_text(json.dumps(spec))


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


async def test_a_node_without_a_specification_uses_mounts_until_it_has_one(here: Here) -> None:
    assert await here.follow() is MOUNTS
    here.describe("GPU-0")
    await here.monitor.read()
    assert here.state.device_list.strategy is CDI
    assert here.state.device_list.text.startswith(f"cdi: {here.file} names all GPUs")


async def test_a_node_without_its_specification_takes_no_new_pods_until_it_is_back(here: Here) -> None:
    here.describe("GPU-0")
    assert await here.follow() is CDI
    here.file.unlink()
    await here.monitor.read()
    here.state.apply_node(NODE, None)
    assert "have got their GPUs by CDI so far" in (here.state.closed_reason or "")
    here.describe("GPU-0")
    await here.monitor.read()
    assert here.state.closed_reason is None


async def test_a_new_agent_knows_from_the_node_that_its_containers_have_cdi(here: Here) -> None:
    node = LocalNode("n", "", {}, {ANN_DEVICE_LIST: "cdi: before"}, {}, {}, "v1.36.3", "containerd://2.2.9")
    assert await here.follow(node) is CDI
    assert here.state.device_list.problem
    node = LocalNode(
        "n", "", {}, {ANN_DEVICE_LIST: "volume-mounts: before"}, {}, {}, "v1.36.3", NODE.runtime_version
    )
    here.monitor = here.started()
    assert await here.follow(node) is MOUNTS
