"""Our pair replaces the Aliyun pair while pods run; the Aliyun pair is a fake.

The only state is that of the Aliyun pair: annotations of its extender and the kubelet's checkpoint with the
responses of its device plugin. The node has no annotation with its GPUs.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from components.manifests.parts import account, cluster_rights, rule
from components.render import as_yaml
from gpushare import contract
from testbed import Bed
from testbed.daemons.agent import NAME, GpuNode, agent_argv, agent_env
from testbed.daemons.extender import start_extender
from testbed.kubelets import KubeletSpec, add_kubelet
from testbed.nvml import NvmlStub, card
from tests.support.fakes import aliyun_plugin
from tests.support.fixtures.gpu_nodes import (
    PODS,
    SHARING,
    GpuBed,
    container,
    gpu_bed,
    metric,
    pod,
    running,
    start_pods,
    until_allocatable,
    until_event,
    until_registered,
)
from tests.support.recount import live, never_overcommitted, until_agreed, used

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

T4 = 14
ORIGINAL = "original"
RIGHTS = [
    rule("", ["nodes", "pods"], ["get", "list", "watch"]),
    rule("", ["pods"], ["update", "patch"]),
    rule("", ["nodes/status"], ["update", "patch"]),
]
"""The part of the ClusterRole of the Aliyun plugin that the fake uses; our agent has fewer rights."""
ROOT = Path(__file__).parents[2]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpus() -> AsyncIterator[GpuBed]:
    async with gpu_bed(extender=False) as found:
        await found.bed.apply(as_yaml([account(ORIGINAL), *cluster_rights(ORIGINAL, RIGHTS)]))
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(gpus: GpuBed) -> GpuNode:
    """Two T4 of 14 units under the Aliyun plugin."""
    return await add_original_node(gpus.bed, "pair", 2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def single(gpus: GpuBed) -> GpuNode:
    """One T4 of 14 units under the Aliyun plugin."""
    return await add_original_node(gpus.bed, "single", 1)


async def add_original_node(bed: Bed, name: str, count: int) -> GpuNode:
    stub = NvmlStub(bed.folder / f"nvml-{name}", cards=count * [card("T4")])
    config = {"nodeStatusUpdateFrequency": "1s"}
    kubelet = await add_kubelet(bed, KubeletSpec(name, labels=SHARING, config=config))
    uuids = [each.uuid for each in stub.description.cards]
    kubeconfig = bed.kubeconfig_for(f"system:serviceaccount:kube-system:{ORIGINAL}")
    argv = [sys.executable, aliyun_plugin.__file__, name, str(kubeconfig), str(T4), *uuids]
    agent = await kubelet.spawn(ORIGINAL, argv, env={"PYTHONPATH": str(ROOT)})
    node = GpuNode(bed, kubelet, stub, agent)
    await until_allocatable(node, count * T4)
    return node


async def bind(bed: Bed, name: str, node: str, index: int, units: int, assumed: int) -> None:
    """Bind as the Aliyun extender does: first the annotations, then the binding."""
    notes = {
        contract.ANN_IDX: str(index),
        contract.ANN_DEV: str(T4),
        contract.ANN_POD: str(units),
        contract.ANN_ASSIGNED: "false",
        contract.ANN_ASSUME_TIME: str(assumed),
    }
    await bed.api.patch(f"{PODS}/{name}", {"metadata": {"annotations": notes}})
    target = {"kind": "Node", "name": node}
    await bed.api.create(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})


async def take_over(node: GpuNode) -> GpuNode:
    """Stop the Aliyun plugin, start our agent."""
    await node.kubelet.kill(ORIGINAL)
    argv, env = agent_argv(node.bed), agent_env(node.name, node.stub)
    agent = await node.kubelet.spawn(NAME, argv, env=env)
    return GpuNode(node.bed, node.kubelet, node.stub, agent)


def cards_of(node: GpuNode) -> dict[str, int]:
    return {each.pod.removeprefix("default/"): each.index for each in live(node)}


def pids(node: GpuNode) -> dict[str, int]:
    return {each.pod: each.pid for each in live(node)}


async def test_pods_of_the_aliyun_plugin_keep_running_and_their_gpus_are_known(
    gpus: GpuBed, pair: GpuNode, single: GpuNode
) -> None:
    bed = gpus.bed
    for number, (name, index, units) in enumerate((("one", 0, 4), ("two", 1, 6))):
        await bed.create_pods([pod(name, container(units))])
        await bind(bed, name, "pair", index, units, 1000 + number)
        await running(bed, name)
    # A defect of the Aliyun plugin: the first call of two equal pods gets the GPU of the pod assumed first.
    await pair.kubelet.pause("kubelet")
    await bed.create_pods([pod("left", container(5)), pod("right", container(5))])
    await bind(bed, "left", "pair", 0, 5, 2001)
    await bind(bed, "right", "pair", 1, 5, 2000)
    await pair.kubelet.resume("kubelet")
    # On a node with one GPU it serves pods without annotations.
    await bed.create_pods([pod("bare", container(3), nodeName="single")])
    for name in ("left", "right", "bare"):
        await running(bed, name)
    assert cards_of(pair) == {"one": 0, "two": 1, "left": 1, "right": 0}
    assert contract.ANN_IDX not in (await bed.api.get(f"{PODS}/bare"))["metadata"].get("annotations", {})
    before = pids(pair), pids(single)

    await start_extender(bed, gpus.extender)
    nodes = await asyncio.gather(take_over(pair), take_over(single))
    for node, count in zip(nodes, (2, 1), strict=True):
        await until_registered(node)
        await until_allocatable(node, count * T4)
        await until_agreed(node, gpus.extender)
        assert await metric(node, "gpushare_device_plugin_allocations_total") == 0
    assert (pids(pair), pids(single)) == before
    for name, index in (("left", 1), ("right", 0)):
        assert (await bed.api.get(f"{PODS}/{name}"))["metadata"]["annotations"][contract.ANN_IDX] == str(
            index
        )


async def test_units_allocated_by_the_aliyun_plugin_are_not_allocated_again(
    gpus: GpuBed, pair: GpuNode
) -> None:
    bed, there = gpus.bed, {"kubernetes.io/hostname": "pair"}
    async with never_overcommitted(pair, T4):
        await bed.create_pods([pod("fits-nowhere", container(7), nodeSelector=there)])
        await until_event(bed, "fits-nowhere", lambda text: "asked 7, at most 5 of 14 free on GPU 0" in text)
        for name, units in (("fits-card-0", 5), ("fits-card-1", 3)):
            await start_pods(bed, pod(name, container(units), nodeSelector=there))
    assert used(pair) == {0: T4, 1: T4}
    await until_agreed(pair, gpus.extender)


async def test_a_container_of_the_aliyun_plugin_restarts_on_its_gpu(gpus: GpuBed, pair: GpuNode) -> None:
    before = {each.pod: each.uuid for each in live(pair)}
    pid = next(each.pid for each in live(pair) if each.pod == "default/one")
    await pair.kubelet.run_text(["kill", "-KILL", str(pid)])
    await running(gpus.bed, "one", restarts=1)
    assert {each.pod: each.uuid for each in live(pair)} == before
    await until_agreed(pair, gpus.extender)
