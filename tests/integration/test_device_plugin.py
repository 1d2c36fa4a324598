"""The path of a pod on real components: scheduler, extender, kubelet, Allocate, containerd, container."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gpushare import contract
from gpushare.model.annotations import parse_assigned
from testbed import Bed, until
from testbed.control_plane.api import Object
from testbed.daemons.agent import NAME, GpuNode, add_gpu_node
from testbed.kubelets import KubeletSpec
from testbed.nvml import ERAS, card
from tests.support.fixtures.gpu_nodes import (
    PODS,
    SHARING,
    clear,
    container,
    failed,
    gpu_bed,
    node_object,
    pod,
    remove,
    running,
    start_pods,
    unready,
    until_allocatable,
    until_event,
)
from tests.support.recount import live

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with gpu_bed() as found:
        yield found.bed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def t4(bed: Bed) -> GpuNode:
    """The node of the ACK documentation: one T4 of 15079 MiB."""
    return await add_gpu_node(bed, KubeletSpec("t4", labels=SHARING), [card("T4")])


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def no_pods_left(bed: Bed) -> AsyncIterator[None]:
    yield
    await clear(bed)


async def patch_node(node: GpuNode, patch: Object, part: str = "") -> None:
    await node.bed.api.patch(f"/api/v1/nodes/{node.name}{part}", patch)


async def label(node: GpuNode, **labels: str | None) -> None:
    await patch_node(node, {"metadata": {"labels": labels}})


def on(node: GpuNode) -> dict[str, Any]:
    """A pod's way to a node with the scheduler's consent."""
    return {"nodeSelector": {"kubernetes.io/hostname": node.name}}


@pytest.mark.kubernetes
async def test_the_node_reports_its_gpus(t4: GpuNode) -> None:
    await until_allocatable(t4, 14)
    found = await node_object(t4)
    cards = json.loads(found["metadata"]["annotations"][contract.ANN_CARDS])
    assert [(c["index"], c["uuid"], c["mib"], c["units"]) for c in cards] == [(0, t4.stub.uuid(0), 15079, 14)]
    assert found["status"]["capacity"][contract.RESOURCE_COUNT] == "1"
    assert found["metadata"]["labels"][contract.LABEL_CARD_COUNT] == "1"
    assert found["metadata"]["labels"][contract.LABEL_CARD_MODEL] == "Tesla-T4"


@pytest.mark.kubernetes
async def test_s0_three_pods_of_4_share_the_t4(bed: Bed, t4: GpuNode) -> None:
    await bed.create_pods([pod(f"tf-notebook-{i}", container(4), **on(t4)) for i in range(3)])
    for i in range(3):
        await running(bed, f"tf-notebook-{i}")
        spec = await t4.kubelet.oci_spec(f"tf-notebook-{i}", "main")
        env = dict(entry.split("=", 1) for entry in spec["process"]["env"])
        assert {key: value for key, value in env.items() if "GPU_MEM" in key} == {
            "ALIYUN_COM_GPU_MEM_IDX": "0",
            "ALIYUN_COM_GPU_MEM_POD": "4",
            "ALIYUN_COM_GPU_MEM_CONTAINER": "4",
            "ALIYUN_COM_GPU_MEM_DEV": "14",
        }
        assert env["NVIDIA_VISIBLE_DEVICES"] == contract.VISIBLE_BY_MOUNTS
    assert {(each.uuid, each.units) for each in live(t4)} == {(t4.stub.uuid(0), 4)}

    async def served() -> bool:
        pods = await bed.api.items(PODS)
        return all(p["metadata"]["annotations"].get(contract.ANN_ASSIGNED) == "true" for p in pods)

    await until(served, "the pods to be marked as assigned", 10)
    text = (await node_object(t4))["metadata"]["annotations"][contract.ANN_ASSIGNED_NODE]
    uids = [each["metadata"]["uid"] for each in await bed.api.items(PODS)]
    assert parse_assigned(text) == {uid: {0: 4} for uid in uids}


@pytest.mark.parametrize("era", ERAS)
async def test_the_agent_works_with_drivers_of_every_era(bed: Bed, era: int) -> None:
    name = f"era-{era}"
    node = await add_gpu_node(bed, KubeletSpec(name, labels=SHARING), [card("T4"), card("P40")], era=era)
    await until_allocatable(node, 14 + 22)
    await start_pods(bed, pod(f"pod-{era}", container(20), **on(node)))
    assert [(each.uuid, each.units) for each in live(node)] == [(node.stub.uuid(1), 20)]
    await remove(bed, f"pod-{era}")
    await node.kubelet.close()
    await bed.delete_node(name)


@pytest.mark.kubernetes
async def test_units_of_mib_are_reported_and_allocated(bed: Bed) -> None:
    spec = KubeletSpec("mib", labels=SHARING)
    node = await add_gpu_node(bed, spec, [card("T4"), card("T4")], flags=["--memory-unit=MiB"])
    await until_allocatable(node, 2 * 15079)
    await start_pods(bed, pod("mib", container(8138), **on(node)))
    assert [each.units for each in live(node)] == [8138]
    await remove(bed, "mib")
    await node.kubelet.close()
    await bed.delete_node("mib")


async def test_a_node_is_shared_only_while_it_has_the_label(bed: Bed, t4: GpuNode) -> None:
    await until_allocatable(t4, 14)
    await start_pods(bed, pod("before", container(4), **on(t4)))
    await label(t4, cgpu="false", gpushare="false")
    await until_allocatable(t4, 0)
    assert "label gpushare=false" in await unready(t4)
    await until_event(bed, "t4", lambda text: "gpushare=false" in text, contract.EVENT_NOT_SERVING)

    async def withdrawn() -> bool:
        return contract.ANN_CARDS not in (await node_object(t4))["metadata"]["annotations"]

    await until(withdrawn, "the annotation with the GPUs to be removed")
    await label(t4, cgpu=None, gpushare="true")
    await until_allocatable(t4, 14)
    await running(bed, "before")
    await start_pods(bed, pod("after", container(10), **on(t4)))


@pytest.mark.kubernetes
async def test_no_units_are_offered_while_another_plugin_serves_the_gpus(t4: GpuNode) -> None:
    other = {contract.RESOURCE_WHOLE_GPU: "1"}
    await patch_node(t4, {"status": {"capacity": other, "allocatable": other}}, "/status")
    await until_allocatable(t4, 0)
    assert "another device plugin still offers 1 of nvidia.com/gpu" in await unready(t4)
    gone = {contract.RESOURCE_WHOLE_GPU: None}
    await patch_node(t4, {"status": {"capacity": gone, "allocatable": gone}}, "/status")
    await until_allocatable(t4, 14)


async def test_a_lost_gpu_count_is_written_again(t4: GpuNode) -> None:
    lost = {contract.RESOURCE_COUNT: None}
    await patch_node(t4, {"status": {"capacity": lost, "allocatable": lost}}, "/status")

    async def back() -> bool:
        return bool((await node_object(t4))["status"]["capacity"].get(contract.RESOURCE_COUNT) == "1")

    await until(back, "gpu-count", 30)


async def test_a_gpu_that_an_administrator_cordons_takes_no_more_pods(bed: Bed, t4: GpuNode) -> None:
    await start_pods(bed, pod("stays", container(4), **on(t4)))
    await patch_node(t4, {"metadata": {"annotations": {contract.ANN_CORDONED_CARDS: "0"}}})

    async def closed() -> bool:
        annotations = (await node_object(t4))["metadata"]["annotations"]
        return not json.loads(annotations[contract.ANN_CARDS])[0]["healthy"]

    await until(closed, "the GPU to be unschedulable", 30)
    await bed.create_pods([pod("waits", container(4), **on(t4))])
    await until_event(bed, "waits", lambda text: "unschedulable: GPU 0" in text, contract.EVENT_REFUSED)
    await until_allocatable(t4, 14)
    await patch_node(t4, {"metadata": {"annotations": {contract.ANN_CORDONED_CARDS: None}}})
    await running(bed, "waits")
    await running(bed, "stays")


async def test_less_memory_after_a_driver_upgrade_is_reported_and_causes_no_overcommitment(bed: Bed) -> None:
    node = await add_gpu_node(bed, KubeletSpec("upgraded", labels=SHARING), [card("T4")])
    await start_pods(bed, pod("whole", container(14), **on(node)))
    await node.kubelet.stop(NAME)
    node.stub.cards([card("T4", uuid=node.stub.uuid(0), total_mib=13 * 1024 + 100, reserved_mib=0)])
    await node.kubelet.start(NAME)
    await until_event(
        bed, "upgraded", lambda text: "14" in text and "13" in text, contract.EVENT_CARDS_CHANGED
    )
    await until_allocatable(node, 13)
    await running(bed, "whole")
    await bed.create_pods([pod("more", container(1), nodeName="upgraded")])
    status = (await failed(bed, "more"))["status"]
    assert "Available: 0" in status["message"], status
    await remove(bed, "whole", "more")
    await node.kubelet.close()
    await bed.delete_node("upgraded")
