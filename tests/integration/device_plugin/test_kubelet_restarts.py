"""Restarts of the kubelet, also with loss of its state, while pods run; on a real kubelet."""

import json

import pytest

from gpushare import contract
from testbed import until
from testbed.daemons.agent import GpuNode
from testbed.nvml import card
from tests.support.fixtures.agents import Link, fake_node, start_kubelet
from tests.support.fixtures.gpu_nodes import (
    T4,
    GpuBed,
    bound,
    container,
    pod,
    remove,
    running,
    start_pods,
    until_allocatable,
    until_event,
    until_registered,
)
from tests.support.recount import CHECKPOINT, by_name, never_overcommitted, recorded, two_pods, until_agreed

pytestmark = [pytest.mark.kubernetes, pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="package")]


async def test_a_restarted_kubelet_has_the_gpus_and_its_pods_keep_theirs(gpus: GpuBed, node: GpuNode) -> None:
    before = await two_pods(gpus, node)
    record = recorded(node)
    await node.kubelet.kill("kubelet")
    await node.kubelet.start("kubelet")
    await until_registered(node)
    await until_allocatable(node, 2 * T4)
    assert by_name(node) == before
    assert recorded(node) == record
    await start_pods(gpus.bed, pod("c", container(4)))
    await until_agreed(node, gpus.extender)


@pytest.mark.parametrize("damage", ["deleted", "cut short", "not its own"])
async def test_pods_keep_their_gpus_when_the_kubelet_loses_its_checkpoint(
    gpus: GpuBed, node: GpuNode, damage: str
) -> None:
    """The kubelet then treats all units as free: only the agent prevents over-commitment."""
    before = await two_pods(gpus, node)
    await node.kubelet.stop("kubelet")
    file = node.kubelet.path(CHECKPOINT)
    match damage:
        case "deleted":
            file.unlink()
        case "cut short":
            file.write_bytes(file.read_bytes()[:100])
        case _:
            file.write_text(json.dumps({**json.loads(file.read_text()), "Checksum": 1}))
    await node.kubelet.start("kubelet")
    await until_registered(node)
    await until_allocatable(node, 2 * T4)
    assert not json.loads(file.read_text())["Data"]["PodDeviceEntries"]
    assert by_name(node) == before
    async with never_overcommitted(node, T4):
        await start_pods(gpus.bed, pod("fits", container(4)))
        await gpus.bed.create_pods([pod("does-not", container(5), nodeName=node.name)])
        await until_event(gpus.bed, "does-not", lambda text: "asked 5, at most 4 of 14 free on GPU" in text)
        await remove(gpus.bed, "does-not")
    assert [each for each in by_name(node) if each.pod != "default/fits"] == before
    await until_agreed(node, gpus.extender)


async def test_an_agent_recovers_allocations_from_its_record_without_the_checkpoint(
    gpus: GpuBed, node: GpuNode
) -> None:
    before = await two_pods(gpus, node)
    record = recorded(node)
    await node.kubelet.stop("kubelet")
    await node.agent.stop()
    node.kubelet.path(CHECKPOINT).unlink()
    await node.agent.start()
    await start_kubelet(node)
    await until_allocatable(node, 2 * T4)
    assert recorded(node) == record
    async with never_overcommitted(node, T4):
        await gpus.bed.create_pods([pod("does-not", container(5), nodeName=node.name)])
        await until_event(gpus.bed, "does-not", lambda text: "asked 5, at most 4 of 14 free on GPU" in text)
        await remove(gpus.bed, "does-not")
    assert by_name(node) == before
    await until_agreed(node, gpus.extender)


async def test_a_kubelet_that_dies_during_allocate_calls_again_and_gets_one_gpu(
    gpus: GpuBed, node: GpuNode, link: Link
) -> None:
    """GetPreferredAllocation was answered; Allocate waits for a pod that the agent cannot see yet."""
    link.cut()
    await gpus.bed.create_pods([pod("late", container(7))])
    await bound(gpus.bed, "late")

    async def asked() -> bool:
        lines = node.kubelet.process("kubelet").command.log.read_text().splitlines()
        return any("Making allocation request" in line and "default/late" in line for line in lines)

    await until(asked, "the kubelet to wait for an answer")
    await node.kubelet.kill("kubelet")
    link.restore()
    await start_kubelet(node)
    await running(gpus.bed, "late")
    assert len(recorded(node)) == 1
    await until_agreed(node, gpus.extender)


async def test_a_kubelet_that_dies_between_preference_and_allocate_loses_nothing(gpus: GpuBed) -> None:
    """With a fake kubelet: nothing keeps a real one between two calls that follow each other at once."""
    async with fake_node(gpus.bed, "between", 2 * [card("T4")]) as fake:
        mem = contract.RESOURCE_MEM

        async def up() -> bool:
            return fake.kubelet.allocatable(mem) == 2 * T4

        await until(up, "the agent to be registered")
        created = (await gpus.bed.create_pods([pod("held-up", container(5), nodeName="between")]))[0]
        first = await fake.kubelet.prefer(mem, fake.kubelet.healthy(mem), (), 5)
        await fake.kubelet.restart()
        await until(up, "the agent to be registered again")
        assert await fake.kubelet.prefer(mem, fake.kubelet.healthy(mem), (), 5) == first
        answer = await fake.kubelet.admit(created["metadata"]["uid"], "main", mem, 5)
        assert answer.envs[contract.ENV_CONTAINER] == "5"
