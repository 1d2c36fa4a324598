"""Reboots of the machine while pods run; on a real kubelet."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpushare import contract
from gpushare.installer.install import install
from gpushare.isolation import layout
from gpushare.isolation.layout import DirectoryOwner
from gpushare.isolation.region_layout import SIZE
from testbed import until
from testbed.daemons.agent import GpuNode
from tests.support.builders.library_package import packaged
from tests.support.fixtures.agents import Link, connect
from tests.support.fixtures.gpu_nodes import (
    PODS,
    T4,
    GpuBed,
    container,
    metric,
    owner,
    owners,
    remove,
    replicas_run,
    running,
    until_allocatable,
    until_event,
    until_registered,
)
from tests.support.recount import (
    by_name,
    never_overcommitted,
    recorded,
    two_pods,
    until_agreed,
)

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="package")]


async def reboot(node: GpuNode, link: Link, *, folders: Sequence[str] = ()) -> None:
    """Reboot; the kubelet gets its pods after the GPUs are registered.

    As with an agent that the machine itself starts. One that is a pod comes too late for the others.
    ``folders`` are made before the agent starts.
    """
    await node.agent.stop()
    old = node.kubelet.process("containerd").pid
    rebooting = asyncio.create_task(node.kubelet.reboot())

    async def on() -> bool:
        containerd = node.kubelet.process("containerd")
        return containerd.running and containerd.pid != old

    await until(on, "the machine to be on", poll_s=0.01)
    await node.kubelet.pause("api")
    await connect(link, node.kubelet)
    for folder in folders:
        node.kubelet.path(folder).mkdir()
    await node.agent.start()
    await until_registered(node)
    await node.kubelet.resume("api")
    await rebooting


async def test_after_a_reboot_pods_return_to_their_gpus_without_allocate_calls(
    gpus: GpuBed, node: GpuNode, link: Link
) -> None:
    before = await two_pods(gpus, node)
    record = recorded(node)
    await reboot(node, link)
    for name in ("a", "b"):
        await running(gpus.bed, name, restarts=1)
    assert [(each.uid, each.uuid) for each in by_name(node)] == [(each.uid, each.uuid) for each in before]
    assert recorded(node) == record
    assert await metric(node, "gpushare_device_plugin_allocations_total") == 0
    await until_agreed(node, gpus.extender)


async def test_a_gpu_that_is_gone_after_a_reboot_fails_only_its_own_pods(
    gpus: GpuBed, node: GpuNode, link: Link
) -> None:
    cards = node.stub.description.cards
    before = await two_pods(gpus, node)
    stays, goes = sorted(before, key=lambda each: each.index)
    node.stub.cards(cards[:1])
    try:
        await reboot(node, link)
        name = goes.pod.removeprefix("default/")
        text = f"GPU 1 ({cards[1].name}) is gone"
        await until_event(gpus.bed, node.name, lambda found: found == text, contract.EVENT_CARDS_CHANGED)
        await until_event(gpus.bed, name, lambda found: "devices are no longer healthy" in found)
        await remove(gpus.bed, name)
        await running(gpus.bed, stays.pod.removeprefix("default/"), restarts=1)
        assert [(each.uid, each.uuid) for each in by_name(node)] == [(stays.uid, stays.uuid)]
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
    await connect(link, node.kubelet)

    async def struck() -> bool:
        pods = await gpus.bed.api.items(PODS, labelSelector="app=owned")
        return {p["metadata"]["uid"] for p in pods if p["status"]["phase"] == "Failed"} >= before

    await until(struck, "the pods to be failed")
    async with never_overcommitted(node, T4):
        await node.agent.start()
        after = await replicas_run(gpus.bed, "owned", 2)
    assert before.isdisjoint(p["metadata"]["uid"] for p in after)
    await until_agreed(node, gpus.extender)


@asynccontextmanager
async def enforcing(gpus: GpuBed, node: GpuNode, package: Path) -> AsyncIterator[None]:
    """The node enforces limits, with a file in place of the library: no program here loads it."""
    path = f"/api/v1/nodes/{node.name}"
    (package / layout.LIBRARY).touch()
    install(packaged(package), node.kubelet.path(contract.ISOLATION_LIBRARIES))
    node.kubelet.path(contract.ISOLATION_STATE).mkdir()
    await gpus.bed.api.patch(path, {"metadata": {"labels": {contract.LABEL_MODE: "cgpu"}}})
    await node.agent.restart()
    await until_registered(node)
    yield
    await gpus.bed.api.patch(path, {"metadata": {"labels": {contract.LABEL_MODE: None}}})


def files(node: GpuNode) -> dict[str, tuple[str, int]]:
    """Pod → text of its limit and size of its region."""
    state = node.kubelet.path(contract.ISOLATION_STATE)
    folders = {
        each.pod: layout.link_of(state, DirectoryOwner(each.uid, each.container)) for each in by_name(node)
    }
    return {
        pod: ((folder / layout.LIMIT).read_text(), (folder / layout.REGION).stat().st_size)
        for pod, folder in folders.items()
    }


async def test_after_a_reboot_limits_and_regions_are_there_before_containers_start(
    gpus: GpuBed, node: GpuNode, link: Link, tmp_path: Path
) -> None:
    async with enforcing(gpus, node, tmp_path):
        await two_pods(gpus, node)
        before = files(node)
        assert {size for _, size in before.values()} == {SIZE}
        await reboot(node, link, folders=[contract.ISOLATION_STATE])
        for name in ("a", "b"):
            await running(gpus.bed, name, restarts=1)
            inside = f"{contract.ISOLATION_INSIDE}/{layout.LIMIT}"
            assert (await gpus.bed.kubectl("exec", name, "--", "cat", inside)).startswith(
                "gpushare-limit 1\n"
            )
        assert files(node) == before
