"""A switch to sharing while a whole-GPU pod runs, in the order of the ACK documentation.

NVIDIA's plugin is a stand-in in a static pod; kubelet, containers, scheduler, extender, agent and the command
that moves the plugin are real.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from devkit.errors import DevkitError
from gpushare import contract
from gpushare.errors import ApiError
from testbed import Bed, until
from testbed.control_plane.api import Object, read_text
from testbed.daemons.agent import NAME, CardNode, GpuNode, add_card_node, start_agent
from testbed.daemons.whole_gpu_plugin import static_pod, until_whole_gpus
from testbed.kubelets import KubeletSpec
from testbed.nvml import card
from tests.support.fixtures.gpu_nodes import (
    GpuBed,
    container,
    failed,
    gpu_bed,
    metric,
    node_object,
    owner,
    owners,
    pod,
    remove,
    running,
    start_pods,
    unready,
    until_allocatable,
    until_event,
    until_registered,
)
from tests.support.recount import live

pytestmark = [pytest.mark.kubernetes, pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

MANIFESTS = "/etc/kubernetes/manifests"
BACKUP = "/etc/kubernetes/manifests-backup"
PLUGIN = "nvidia-device-plugin.yml"
V100 = 15
"""Units of a V100 in GiB."""
APP = "app-3g-v1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpus() -> AsyncIterator[GpuBed]:
    async with gpu_bed() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exclusive(gpus: GpuBed) -> CardNode:
    """A node of two V100 that NVIDIA's plugin serves, as a static pod."""
    spec = KubeletSpec(
        "ack",
        labels={contract.LABEL_NO_ISOLATION: "true"},
        files={f"{MANIFESTS}/.folder": ""},
        config={"staticPodPath": MANIFESTS, "fileCheckFrequency": "1s"},
    )
    node = await add_card_node(gpus.bed, spec, 2 * [card("V100")])
    node.kubelet.path(f"{MANIFESTS}/{PLUGIN}").write_text(json.dumps(static_pod(node)))
    await until_whole_gpus(node, 2)
    return node


def app(**limits: str) -> Object:
    """The StatefulSet of the ACK documentation."""
    return owner("StatefulSet", APP, 1, container(0, resources={"limits": limits}))


async def label(node: CardNode, value: str) -> None:
    await node.bed.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {"cgpu": value}}})


async def node_mode(node: CardNode, verb: str) -> str:
    """The output of ``gpushare node-mode`` on the node."""
    gpushare = str(Path(sys.executable).with_name("gpushare"))
    return await node.kubelet.run_text([gpushare, "node-mode", verb])


async def cards(node: CardNode) -> list[tuple[bool, list[str]]]:
    """For each GPU in the node annotation: whether it is schedulable, and its whole-GPU pods."""
    annotations = (await node_object(node))["metadata"]["annotations"]
    reported = json.loads(annotations.get(contract.ANN_CARDS, "[]"))
    return [(each["healthy"], each["whole_gpu_pods"]) for each in reported]


async def until_in_use(node: GpuNode, index: int) -> None:
    async def reported() -> bool:
        found = await cards(node)
        return found[index : index + 1] == [(False, [f"default/{APP}-0"])]

    await until(reported, f"GPU {index} to be in use as a whole GPU", 30)
    assert (await cards(node))[1 - index] == (True, [])


async def until_none_in_use(node: GpuNode) -> None:
    async def reported() -> bool:
        return await cards(node) == 2 * [(True, [])]

    await until(reported, "both GPUs to take pods", 60)


async def until_ready_with(node: GpuNode, *lines: str) -> None:
    """Wait until ``/readyz`` is ready with these lines."""

    async def reported() -> bool:
        return await read_text(f"{node.ops_url}/readyz") == "\n".join(["ok", *lines])

    await until(reported, f"the agent to be ready with {lines}", 30)


async def used(gpus: GpuBed, node: CardNode) -> list[int]:
    """Units in use of each GPU, as the extender counts them."""
    (found,) = json.loads(await read_text(f"{gpus.extender.url}/inspect/{node.name}"))["nodes"]
    return [each["usedGPU"] for each in found["devs"]]


async def until_used(gpus: GpuBed, node: CardNode, *units: int) -> None:
    async def reported() -> bool:
        return await used(gpus, node) == list(units)

    await until(reported, f"{units} units in use", 30)


def whole_card_of(node: CardNode) -> int:
    """The GPU that the kubelet has allocated to the app, by its checkpoint."""
    checkpoint = f"{contract.DEVICE_PLUGIN_FOLDER}/{contract.KUBELET_CHECKPOINT}"
    entries = json.loads(node.kubelet.path(checkpoint).read_text())["Data"]["PodDeviceEntries"]
    given = [each["DeviceIDs"] for each in entries if each["ResourceName"] == contract.RESOURCE_WHOLE_GPU]
    ((uuid,),) = given[-1].values()
    return [each.uuid for each in node.stub.description.cards].index(uuid)


@dataclass(frozen=True)
class Switched:
    """A node that shares its GPUs while the app has GPU ``mine`` as a whole GPU."""

    node: GpuNode
    mine: int

    @property
    def until(self) -> str:
        """Until when the GPU takes no pods, as text."""
        return f"until default/{APP}-0 is gone, which has a whole GPU"

    @property
    def line(self) -> str:
        """The agent's state of it."""
        return f"GPU {self.mine} takes no pods {self.until}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def switched(exclusive: CardNode) -> Switched:
    """Run a pod with a whole GPU, label the node, start the agent, evict the plugin."""
    api = exclusive.bed.api
    await api.create(owners("StatefulSet"), app(**{contract.RESOURCE_WHOLE_GPU: "1"}))
    await running(exclusive.bed, f"{APP}-0")
    await label(exclusive, "true")
    node = await start_agent(exclusive, ready=False)

    async def waits() -> bool:
        return "another device plugin still offers 2 of nvidia.com/gpu" in await unready(node)

    await until(waits, "the agent to wait", 30)
    assert await cards(node) == []
    assert await node_mode(node, "evict") == f"moved {MANIFESTS}/{PLUGIN} to {BACKUP}\n"
    await until_allocatable(node, 2 * V100, 60)
    return Switched(node, whole_card_of(node))


async def remove_app(bed: Bed) -> None:
    with suppress(ApiError):
        await bed.api.delete(f"{owners('StatefulSet')}/{APP}")
    await remove(bed, f"{APP}-0")


async def test_after_the_switch_the_gpu_is_full_and_its_pod_keeps_running(
    gpus: GpuBed, switched: Switched
) -> None:
    node, mine = switched.node, switched.mine
    await until_in_use(node, mine)
    await running(gpus.bed, f"{APP}-0")
    await until_ready_with(node, switched.line)
    await until_event(gpus.bed, node.name, lambda text: text == switched.line, contract.EVENT_CARD_IN_USE)
    assert await metric(node, "gpushare_device_plugin_cards", state="whole") == 1
    await until_used(gpus, node, *([V100, 0] if mine == 0 else [0, V100]))


async def test_a_full_gpu_stays_full_after_restarts_of_kubelet_and_agent(
    gpus: GpuBed, switched: Switched
) -> None:
    node = switched.node
    await node.kubelet.kill("kubelet")
    await node.kubelet.start("kubelet")
    await until_registered(node)
    await until_allocatable(node, 2 * V100)
    await node.kubelet.kill(NAME)
    await node.kubelet.start(NAME)
    await until_registered(node)
    await until_ready_with(node, switched.line)
    await running(gpus.bed, f"{APP}-0")


async def test_only_the_other_gpu_takes_pods_until_the_whole_gpu_pod_is_gone(
    gpus: GpuBed, switched: Switched
) -> None:
    bed, node, mine = gpus.bed, switched.node, switched.mine
    await start_pods(bed, pod("fits", container(V100)))
    assert [(each.uuid, each.units) for each in live(node)] == [(node.stub.uuid(1 - mine), V100)]
    closed = f"unschedulable: GPU {mine} {switched.until}"
    await bed.create_pods([pod("waits", container(4))])
    await until_event(bed, "waits", lambda text: closed in text, contract.EVENT_REFUSED)
    await bed.create_pods([pod("past-the-scheduler", container(4), nodeName=node.name)])
    assert closed in (await failed(bed, "past-the-scheduler"))["status"]["message"]
    await remove_app(bed)
    await until_none_in_use(node)
    await running(bed, "waits", 60)
    assert {each.uuid for each in live(node)} == {node.stub.uuid(0), node.stub.uuid(1)}
    await until_event(
        bed, node.name, lambda text: f"GPU {mine} is no longer" in text, contract.EVENT_CARD_FREE
    )
    await until_ready_with(node)
    await remove(bed, "fits", "waits", "past-the-scheduler")


async def test_a_node_that_is_switched_back_allocates_whole_gpus_again(
    gpus: GpuBed, switched: Switched
) -> None:
    bed, node = gpus.bed, switched.node
    await remove_app(bed)
    await start_pods(bed, pod("shares", container(4)), timeout_s=60)
    await label(node, "false")
    await until_allocatable(node, 0)
    # NVIDIA's plugin does not know the pod, and would allocate its GPU a second time.
    with pytest.raises(
        DevkitError, match=r"pods still use units of aliyun\.com/gpu-mem here: default/shares;"
    ):
        await node_mode(node, "recover")
    assert not node.kubelet.path(f"{MANIFESTS}/{PLUGIN}").exists()
    await remove(bed, "shares")

    async def restored() -> bool:
        with suppress(DevkitError):  # the kubelet removes the cgroup of the pod a moment later
            return await node_mode(node, "recover") == f"moved {BACKUP}/{PLUGIN} to {MANIFESTS}\n"
        return False

    await until(restored, "the plugin to be restored", 30, 1)
    await until_whole_gpus(node, 2)
    await bed.api.create(owners("StatefulSet"), app(**{contract.RESOURCE_WHOLE_GPU: "1"}))
    await running(bed, f"{APP}-0")
    assert await cards(node) == []
    assert "label cgpu=false" in await unready(node)
