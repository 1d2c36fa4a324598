"""Kubelet, agent and machine end and start again at any moment, under pods that run; on real parts."""

import asyncio
import json
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gpushare import contract
from testbed import TestbedError, until
from testbed.agent import NAME, GpuNode
from testbed.kubelets import KubeletSpec, needs
from testbed.nvml import card
from tests.support.agents import Link, add_linked_node, fake_node, lay, linked, start_kubelet
from tests.support.gpunodes import (
    PODS,
    SHARING,
    GpuBed,
    bound,
    clear,
    container,
    events_of,
    gpu_bed,
    has_ended,
    is_over,
    metric,
    node_object,
    owner,
    owners,
    pod,
    remove,
    replicas_run,
    running,
    until_allocatable,
    until_event,
    until_registered,
)
from tests.support.recount import CHECKPOINT, RECORD, Live, live, never_overcommitted, recorded, until_agreed

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

T4 = 14
KILLS = 20

try:
    needs.look()
except TestbedError as reason:
    pytest.skip(str(reason), allow_module_level=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpus() -> AsyncIterator[GpuBed]:
    async with gpu_bed() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def link(gpus: GpuBed) -> AsyncIterator[Link]:
    async with linked(gpus.bed) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(gpus: GpuBed, link: Link) -> GpuNode:
    """Two T4 of 14 units; a kubelet that tells its status every second, and what it asks of plugins."""
    config = {"nodeStatusUpdateFrequency": "1s", "logging": {"verbosity": 4}}
    spec = KubeletSpec("restarted", labels=SHARING, config=config)
    found = await add_linked_node(gpus.bed, link, spec, 2 * [card("T4")])
    await until_allocatable(found, 2 * T4)
    return found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(gpus: GpuBed, node: GpuNode) -> AsyncIterator[None]:
    yield
    await clear(gpus.bed, node)


async def two_pods(gpus: GpuBed, node: GpuNode) -> list[Live]:
    """Pods of 10 units, one on each card, that run and are told by everybody."""
    await gpus.bed.create_pods([pod("a", container(10)), pod("b", container(10))])
    for name in ("a", "b"):
        await running(gpus.bed, name)
    await until_agreed(node, gpus.extender)
    return sorted(live(node), key=lambda each: each.pod)


def served(node: GpuNode) -> list[Live]:
    return sorted(live(node), key=lambda each: each.pod)


# --- the kubelet --------------------------------------------------------------------------------


async def test_a_kubelet_that_starts_again_has_the_cards_back_and_its_pods_keep_theirs(
    gpus: GpuBed, node: GpuNode
) -> None:
    before = await two_pods(gpus, node)
    record = recorded(node)
    await node.kubelet.kill("kubelet")
    await node.kubelet.start("kubelet")
    await until_registered(node)
    await until_allocatable(node, 2 * T4)
    assert served(node) == before
    assert recorded(node) == record
    await gpus.bed.create_pods([pod("c", container(4))])
    await running(gpus.bed, "c")
    await until_agreed(node, gpus.extender)


@pytest.mark.parametrize("damage", ["deleted", "cut short", "not its own"])
async def test_pods_keep_their_cards_when_the_kubelet_loses_its_checkpoint(
    gpus: GpuBed, node: GpuNode, damage: str
) -> None:
    """The kubelet then takes all units for free: nobody but the agent stands against over-commitment."""
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
    assert served(node) == before
    async with never_overcommitted(node, T4):
        await gpus.bed.create_pods([pod("fits", container(4))])
        await running(gpus.bed, "fits")
        await gpus.bed.create_pods([pod("does-not", container(5), nodeName=node.name)])
        await until_event(gpus.bed, "does-not", lambda text: "asked 5, at most 4 of 14 free on card" in text)
        await remove(gpus.bed, "does-not")
    assert [each for each in served(node) if each.pod != "default/fits"] == before
    await until_agreed(node, gpus.extender)


async def test_an_agent_and_a_kubelet_that_forgot_everything_learn_it_from_the_record(
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
        await until_event(gpus.bed, "does-not", lambda text: "asked 5, at most 4 of 14 free on card" in text)
        await remove(gpus.bed, "does-not")
    assert served(node) == before
    await until_agreed(node, gpus.extender)


async def test_an_agent_without_its_record_learns_it_from_the_kubelet(gpus: GpuBed, node: GpuNode) -> None:
    before = await two_pods(gpus, node)
    record = recorded(node)
    await node.agent.stop()
    node.kubelet.path(RECORD).unlink()
    await node.agent.start()
    await until_registered(node)
    await until_agreed(node, gpus.extender)
    assert recorded(node) == record
    assert served(node) == before


async def test_a_kubelet_that_dies_while_it_waits_for_an_answer_asks_again_and_gets_one_card(
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
    link.mend()
    await start_kubelet(node)
    await running(gpus.bed, "late")
    assert len(recorded(node)) == 1
    await until_agreed(node, gpus.extender)


async def test_a_kubelet_that_dies_between_preference_and_allocate_has_lost_nothing(gpus: GpuBed) -> None:
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


# --- the agent ----------------------------------------------------------------------------------


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
    events = {name: await events_of(gpus.bed, name) for name in ("a", "b", node.name)}
    await node.agent.restart()
    await until_registered(node)
    await until_allocatable(node, 2 * T4)
    await until_agreed(node, gpus.extender)
    assert served(node) == before
    for right in ("nodes", "pods", "events"):
        assert await metric(node, "gpushare_device_plugin_api_writes_total", right=right) == 0
    assert (await node_object(node))["metadata"]["annotations"] == annotations
    assert recorded(node) == record
    assert {name: await events_of(gpus.bed, name) for name in events} == events


# --- the machine --------------------------------------------------------------------------------


async def reboot(node: GpuNode, link: Link) -> None:
    """Reboot; the kubelet hears of its pods once it knows the cards.

    As with an agent that the machine itself starts. One that is a pod comes too late for the others.
    """
    await node.agent.stop()
    old = node.kubelet.process("containerd").pid
    rebooting = asyncio.create_task(node.kubelet.reboot())

    async def on() -> bool:
        containerd = node.kubelet.process("containerd")
        return containerd.running and containerd.pid != old

    await until(on, "the machine to be on", poll_s=0.01)
    await node.kubelet.pause("api")
    await lay(link, node.kubelet)
    await node.agent.start()
    await until_registered(node)
    await node.kubelet.resume("api")
    await rebooting


async def test_after_a_reboot_pods_come_back_on_their_cards_and_nobody_is_asked(
    gpus: GpuBed, node: GpuNode, link: Link
) -> None:
    before = await two_pods(gpus, node)
    record = recorded(node)
    await reboot(node, link)
    for name in ("a", "b"):
        await running(gpus.bed, name, restarts=1)
    assert [(each.uid, each.uuid) for each in served(node)] == [(each.uid, each.uuid) for each in before]
    assert recorded(node) == record
    assert await metric(node, "gpushare_device_plugin_allocations_total") == 0
    await until_agreed(node, gpus.extender)


async def test_a_card_that_is_gone_after_a_reboot_takes_its_own_pods_with_it(
    gpus: GpuBed, node: GpuNode, link: Link
) -> None:
    cards = node.stub.description.cards
    before = await two_pods(gpus, node)
    stays, goes = sorted(before, key=lambda each: each.index)
    node.stub.cards(cards[:1])
    try:
        await reboot(node, link)
        name = goes.pod.removeprefix("default/")
        text = f"card 1 ({cards[1].name}) is gone"
        await until_event(gpus.bed, node.name, lambda found: found == text, contract.EVENT_CARDS_CHANGED)
        await until_event(gpus.bed, name, lambda found: "devices are no longer healthy" in found)
        await remove(gpus.bed, name)
        await running(gpus.bed, stays.pod.removeprefix("default/"), restarts=1)
        assert [(each.uid, each.uuid) for each in served(node)] == [(stays.uid, stays.uuid)]
        await until_allocatable(node, T4)
        await until_agreed(node, gpus.extender)
    finally:
        node.stub.cards(cards)
        await node.agent.restart()
    await until_allocatable(node, 2 * T4)


async def test_after_a_reboot_owners_replace_pods_that_came_before_the_agent(
    gpus: GpuBed, node: GpuNode, link: Link
) -> None:
    """The kubelet fails pods of which it has no device plugin yet (UnexpectedAdmissionError)."""
    await gpus.bed.api.create(owners("Deployment"), owner("Deployment", "owned", 2, container(10)))
    before = {p["metadata"]["uid"] for p in await replicas_run(gpus.bed, "owned", 2)}
    await node.agent.stop()
    await node.kubelet.reboot()
    await lay(link, node.kubelet)

    async def struck() -> bool:
        pods = await gpus.bed.api.items(PODS, labelSelector="app=owned")
        return {p["metadata"]["uid"] for p in pods if p["status"]["phase"] == "Failed"} >= before

    await until(struck, "the pods to be failed")
    async with never_overcommitted(node, T4):
        await node.agent.start()
        after = await replicas_run(gpus.bed, "owned", 2)
    assert before.isdisjoint(p["metadata"]["uid"] for p in after)
    await until_agreed(node, gpus.extender)
