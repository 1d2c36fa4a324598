"""Writes of the node agent with its permissions in the ACK documentation: those of the kubelet."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from devkit.waiting import timeout_factor
from gpushare.adapters.kube.agent_api import KubeAgentApi
from gpushare.adapters.kube.agent_resources import local_node, local_pods
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.watch import Follower
from gpushare.contract import (
    ANN_ASSIGNED,
    ANN_ASSIGNED_NODE,
    ANN_CARDS,
    EVENT_CARDS_CHANGED,
    LABEL_CARD_MIB,
    RESOURCE_COUNT,
)
from gpushare.deviceplugin.api.writer import ApiWriter
from gpushare.deviceplugin.core.node_patch import desired_node
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ApiError
from gpushare.model.cards import Card
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.local_node import GpuPod, LocalNode
from gpushare.model.options import MemoryUnit
from gpushare.ports import node_event
from testbed import Bed, gpu_pod, until
from testbed.control_plane.api import Object

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARED = SharedGpus(
    MemoryUnit.GIB, (Card(0, 14, "GPU-a", "Tesla T4", 15079), Card(1, 14, "GPU-b", "Tesla T4", 15079))
)
ZERO = {"capacity": {RESOURCE_COUNT: "0"}, "allocatable": {RESOURCE_COUNT: "0"}}


@pytest.fixture
def bed(clean_bed: Bed) -> Bed:
    """One bed for all tests; each test has its node."""
    return clean_bed


@dataclass
class Agent:
    """Publisher and watches of one node, as the daemon connects them."""

    bed: Bed
    node: str
    publisher: ApiWriter
    metrics: PluginMetrics
    gpu_pods: dict[str, GpuPod] = field(default_factory=dict)

    def changed(self, batch: Iterable[Upserted[Any] | Deleted]) -> None:
        for change in batch:
            if isinstance(change, Upserted) and isinstance(change.value, LocalNode):
                self.publisher.observe_node(change.value)
            elif isinstance(change, Upserted) and change.value.gpu_pod:
                self.gpu_pods[change.key] = change.value.gpu_pod

    def synced(self, resource: str) -> None:
        del resource

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:
        raise AssertionError((resource, error, retry_in_s))

    @property
    def path(self) -> str:
        return f"/api/v1/nodes/{self.node}"

    async def settles(self) -> None:
        async with asyncio.timeout(10 * timeout_factor()):
            await asyncio.sleep(0.05)
            while self.metrics.registry.get_sample_value("gpushare_device_plugin_unpublished"):
                await asyncio.sleep(0.01)

    async def shown(self) -> Object:
        return await self.bed.api.get(self.path)

    async def until_shown(self, fact: Callable[[Object], object], what: str) -> None:
        async def met() -> bool:
            return bool(fact(await self.shown()))

        await until(met, what)

    async def places(self, name: str) -> GpuPod:
        """A pod on this node, as the watch returns it."""
        pod = gpu_pod(name, 4)
        pod["spec"]["nodeName"] = self.node
        (made,) = await self.bed.create_pods([pod])
        uid: str = made["metadata"]["uid"]
        return await self.sees(uid, lambda gpu_pod: gpu_pod)

    async def sees(self, uid: str, fact: Callable[[GpuPod], object]) -> GpuPod:
        async def met() -> bool:
            return uid in self.gpu_pods and bool(fact(self.gpu_pods[uid]))

        await until(met, "the watch of pods")
        return self.gpu_pods[uid]


@asynccontextmanager
async def agent(bed: Bed, node: str) -> AsyncIterator[Agent]:
    """An agent with the kubelet's own credentials."""
    await bed.api.create("/api/v1/nodes", {"metadata": {"name": node}})
    kubeconfig = bed.kubeconfig_for(f"system:node:{node}", ["system:nodes"])
    async with KubeClient(await load_access(str(kubeconfig))) as client:
        metrics = PluginMetrics()
        publisher = ApiWriter(KubeAgentApi(client, node=node, identity="agent"), metrics, Watchdog(metrics))
        made = Agent(bed, node, publisher, metrics)
        jobs = (publisher, Follower(client, local_node(node), made), Follower(client, local_pods(node), made))
        tasks = [asyncio.create_task(job.run()) for job in jobs]
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def counts(node: Object) -> list[str | None]:
    """The GPU counts in capacity and allocatable."""
    sections = (node["status"].get(name, {}) for name in ("capacity", "allocatable"))
    return [section.get(RESOURCE_COUNT) for section in sections]


async def test_the_node_has_gpus_labels_and_their_count(bed: Bed) -> None:
    async with agent(bed, "shows") as made:
        made.publisher.set_node(desired_node(SHARED, '{"x":{"main":{"0":4}}}'))
        await made.settles()
        node = await made.shown()
        assert node["metadata"]["annotations"][ANN_ASSIGNED_NODE] == '{"x":{"main":{"0":4}}}'
        assert node["metadata"]["labels"][LABEL_CARD_MIB] == "15079MiB"
        assert counts(node) == ["2", "2"]


async def test_zeroed_or_lost_values_of_the_node_are_written_again(bed: Bed) -> None:
    async with agent(bed, "loses") as made:
        made.publisher.set_node(desired_node(SHARED, "{}"))
        await made.settles()
        await bed.api.patch(f"{made.path}/status", {"status": ZERO})
        await made.until_shown(lambda node: counts(node) == ["2", "2"], "the number of cards to be back")
        await bed.api.delete(made.path)
        await bed.api.create("/api/v1/nodes", {"metadata": {"name": "loses"}})
        await made.until_shown(
            lambda node: ANN_CARDS in node["metadata"].get("annotations", {}), "the new object to be written"
        )


async def test_an_agent_that_stops_serving_withdraws_the_gpus_of_the_node(bed: Bed) -> None:
    async with agent(bed, "stops") as made:
        made.publisher.set_node(desired_node(SHARED, "{}"))
        await made.settles()
        made.publisher.set_node(desired_node(None, "{}"))
        await made.settles()
        node = await made.shown()
        assert ANN_CARDS not in node["metadata"]["annotations"]
        assert counts(node) == [None, None]


async def test_a_pod_is_marked_as_assigned_but_not_by_a_patch_for_its_predecessor(bed: Bed) -> None:
    async with agent(bed, "serves") as made:
        pod = (await made.places("p")).pod
        predecessor = replace(pod, uid="of-a-predecessor")
        made.publisher.set_node(desired_node(SHARED, "{}"))
        made.publisher.set_pods(
            {
                predecessor.uid: (predecessor, {ANN_ASSIGNED: "wrong"}),
                pod.uid: (pod, {ANN_ASSIGNED: "true"}),
            }
        )
        await made.settles()
        assert (await made.sees(pod.uid, lambda gpu_pod: gpu_pod.served)).served


async def test_without_permission_for_configmaps_everything_else_works(bed: Bed) -> None:
    async with agent(bed, "reduced") as made:
        made.publisher.set_unhealthy("0")
        made.publisher.record_event(node_event("reduced", EVENT_CARDS_CHANGED, "text"))

        name = "gpushare_device_plugin_degraded_mode"

        async def reported() -> bool:
            events = await bed.api.items("/api/v1/namespaces/default/events")
            return (
                any(event["reason"] == EVENT_CARDS_CHANGED for event in events)
                and made.metrics.registry.get_sample_value(name, {"right": "configmaps"}) == 1
            )

        await until(reported, "the event and the metric")


async def test_with_permission_for_configmaps_the_list_of_unhealthy_gpus_is_created_and_updated(
    bed: Bed,
) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/unhealthy-gpu-n"
    async with KubeClient(await load_access(str(bed.kubeconfig))) as client:
        api = KubeAgentApi(client, node="n", identity="agent")
        await api.write_unhealthy("")
        with pytest.raises(ApiError, match="not found"):
            await bed.api.get(path)
        for indices in ("0,2", ""):
            await api.write_unhealthy(indices)
            assert (await bed.api.get(path))["data"] == {"gpus": indices}
