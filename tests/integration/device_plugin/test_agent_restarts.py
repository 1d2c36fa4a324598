"""Restarts of the agent at any time, while pods run; on a real kubelet."""

import asyncio
import random

import pytest

from gpushare import contract
from testbed.daemons.agent import NAME, GpuNode
from tests.support.fixtures.gpu_nodes import (
    PODS,
    T4,
    GpuBed,
    container,
    events_from,
    has_ended,
    is_over,
    metric,
    node_object,
    owner,
    owners,
    replicas_run,
    until_allocatable,
    until_registered,
)
from tests.support.recount import (
    RECORD,
    by_name,
    never_overcommitted,
    recorded,
    two_pods,
    until_agreed,
)

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="package")]

KILLS = 20


async def test_an_agent_without_its_record_recovers_allocations_from_the_kubelet(
    gpus: GpuBed, node: GpuNode
) -> None:
    before = await two_pods(gpus, node)
    record = recorded(node)
    await node.agent.stop()
    node.kubelet.path(RECORD).unlink()
    await node.agent.start()
    await until_registered(node)
    await until_agreed(node, gpus.extender)
    assert recorded(node) == record
    assert by_name(node) == before


async def test_an_agent_that_is_killed_at_any_moment_loses_nothing_and_over_commits_nothing(
    gpus: GpuBed, node: GpuNode
) -> None:
    chance = random.Random(KILLS)
    bed = gpus.bed
    await bed.api.create(owners("ReplicaSet"), owner("ReplicaSet", "many", 6, container(4)))
    await replicas_run(bed, "many", 6)
    async with never_overcommitted(node, T4):
        for _ in range(KILLS):
            await until_registered(node)
            there = [p for p in await bed.api.items(PODS, labelSelector="app=many") if not is_over(p)]
            for each in chance.sample(there, min(3, len(there))):
                await bed.api.delete(f"{PODS}/{each['metadata']['name']}")
            await asyncio.sleep(chance.uniform(0, 0.6))
            await node.kubelet.kill(NAME)
            await node.kubelet.start(NAME)
        await replicas_run(bed, "many", 6, 120)
    await until_agreed(node, gpus.extender, 60)
    ended = [p for p in await bed.api.items(PODS, labelSelector="app=many") if has_ended(p)]
    assert any("Allocate failed" in p["status"].get("message", "") for p in ended), "no kill hit a call"


async def test_an_upgrade_of_the_agent_changes_nothing_that_runs(gpus: GpuBed, node: GpuNode) -> None:
    before = await two_pods(gpus, node)
    annotations = (await node_object(node))["metadata"]["annotations"]
    record = recorded(node)
    events = await events_from(gpus.bed, contract.AGENT_NAME)
    await node.agent.restart()
    await until_registered(node)
    await until_allocatable(node, 2 * T4)
    await until_agreed(node, gpus.extender)
    assert by_name(node) == before
    for right in ("nodes", "pods", "events"):
        assert await metric(node, "gpushare_device_plugin_api_writes_total", kind=right) == 0
    assert (await node_object(node))["metadata"]["annotations"] == annotations
    assert recorded(node) == record
    assert await events_from(gpus.bed, contract.AGENT_NAME) == events
