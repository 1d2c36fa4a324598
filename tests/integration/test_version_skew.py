"""Extender and node agents of the release before and of this one in the same cluster, on real kubelets.

An upgrade replaces the agents on a tenth of the nodes at a time, so both versions run side by side. The
rights are those of this release, because an upgrade changes them first.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from testbed.daemons.agent import ACCOUNT, NAME, OPS_PORT, CardNode, GpuNode, add_card_node, agent_env
from testbed.daemons.agent import start_agent as start_current_agent
from testbed.daemons.extender import ACCOUNT as EXTENDER_ACCOUNT
from testbed.daemons.extender import start_extender
from testbed.kubelets import KubeletSpec
from testbed.nvml import card
from tests.support.fixtures.gpu_nodes import (
    SHARING,
    GpuBed,
    clear,
    container,
    gpu_bed,
    pod,
    running,
    until_event,
)
from tests.support.fixtures.releases import Release, previous_release
from tests.support.recount import by_name, until_agreed, used

pytestmark = [
    pytest.mark.needs("kubelet"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]

WAIT_S = 60.0


@dataclass
class Cluster:
    """A node with the agent of the release before, and one with that of this release; two T4 each."""

    gpus: GpuBed
    release: Release
    old: GpuNode
    new: GpuNode

    async def places(self, node: GpuNode, name: str) -> None:
        """Run a pod on each GPU of a node; one that fits the node but no GPU has the extender's reason."""
        bed, there = self.gpus.bed, {"kubernetes.io/hostname": node.name}
        names = [f"{name}-{each}" for each in range(2)]
        await bed.create_pods([pod(each, container(10), nodeSelector=there) for each in names])
        for each in names:
            await running(bed, each, WAIT_S)
        assert used(node) == {0: 10, 1: 10}
        await bed.create_pods([pod(f"{name}-more", container(8), nodeSelector=there)])
        await until_event(bed, f"{name}-more", lambda text: "asked 8, at most 4 of 14 free" in text)

    async def use_previous_extender(self) -> None:
        """Replace the extender by that of the release before."""
        bed, spec = self.gpus.bed, self.gpus.extender
        await bed.stop(spec.name)
        argv = self.release.argv(spec.argv(bed.kubeconfig_for(EXTENDER_ACCOUNT)))
        await bed.spawn(spec.name, argv, env=self.release.env, ready=f"{spec.ops_url}/readyz")

    async def use_current_extender(self) -> None:
        """Replace the extender by that of this release."""
        await self.gpus.bed.stop(self.gpus.extender.name)
        await start_extender(self.gpus.bed, self.gpus.extender)


async def start_previous_agent(node: CardNode, release: Release) -> GpuNode:
    """Start the agent of the release before; return when the node offers GPU memory."""
    account = f"--kubeconfig={node.bed.kubeconfig_for(ACCOUNT)}"
    argv = release.argv(["gpushare", "device-plugin", account, f"--ops-port={OPS_PORT}"])
    env = {**agent_env(node.name, node.stub), **release.env}
    found = GpuNode(node.bed, node.kubelet, node.stub, await node.kubelet.spawn(NAME, argv, env=env))
    await found.until_offered(WAIT_S)
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    release = await asyncio.to_thread(previous_release, tmp_path_factory.mktemp("previous"))
    async with gpu_bed() as gpus:
        specs = (KubeletSpec(name, labels=SHARING) for name in ("old", "new"))
        first, second = await asyncio.gather(
            *(add_card_node(gpus.bed, spec, 2 * [card("T4")]) for spec in specs)
        )
        old, new = await start_previous_agent(first, release), await start_current_agent(second)
        yield Cluster(gpus, release, old, new)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def no_pods_left(cluster: Cluster) -> AsyncIterator[None]:
    yield
    await clear(cluster.gpus.bed)


async def test_this_extender_places_pods_on_nodes_with_agents_of_both_releases(cluster: Cluster) -> None:
    await asyncio.gather(cluster.places(cluster.old, "old"), cluster.places(cluster.new, "new"))


async def test_the_extender_of_the_release_before_places_pods_on_nodes_with_agents_of_both_releases(
    cluster: Cluster,
) -> None:
    await cluster.use_previous_extender()
    await asyncio.gather(cluster.places(cluster.old, "old"), cluster.places(cluster.new, "new"))
    await cluster.use_current_extender()
    await until_agreed(cluster.new, cluster.gpus.extender, WAIT_S)


async def test_pods_keep_their_gpu_while_their_agent_is_upgraded(cluster: Cluster) -> None:
    await cluster.places(cluster.old, "kept")
    before = by_name(cluster.old)
    await cluster.old.kubelet.stop(NAME)
    upgraded = await start_current_agent(cluster.old)
    await until_agreed(upgraded, cluster.gpus.extender, WAIT_S)
    assert by_name(upgraded) == before
