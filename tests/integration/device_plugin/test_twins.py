"""Pods that the agent cannot distinguish, and pods in quick succession; on a real kubelet."""

import asyncio
import json

import pytest

from gpushare import contract
from testbed import until
from testbed.control_plane.api import Object
from testbed.daemons.agent import GpuNode
from tests.support.fixtures.agents import start_kubelet
from tests.support.fixtures.gpu_nodes import (
    PODS,
    T4,
    GpuBed,
    bound,
    container,
    metric,
    node_object,
    owner,
    owners,
    pod,
    remove,
    replicas_run,
    running,
    start_pods,
    until_event,
)
from tests.support.recount import (
    cards_of,
    never_overcommitted,
    until_agreed,
)

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="package")]


async def swept(gpus: GpuBed, node: GpuNode) -> None:
    """Let the kubelet free the devices of deleted pods, which it does at its next allocation.

    One that has just started does not until it has heard of all pods.
    """
    await start_pods(gpus.bed, pod("sweeps", container(1)))
    await remove(gpus.bed, "sweeps")

    async def still() -> bool:
        return not cards_of(node)

    await until(still, "the last container to be gone")


async def test_twins_that_the_kubelet_admits_in_the_opposite_order_exchange_their_gpus(
    gpus: GpuBed, node: GpuNode
) -> None:
    """A kubelet that has just started admits pods by age: the younger twin is bound first here."""
    bed = gpus.bed
    await swept(gpus, node)
    await node.kubelet.stop("kubelet")
    await bed.create_pods([pod("older", container(10), schedulingGates=[{"name": "test/later"}])])
    # creationTimestamp has a resolution of one second.
    await asyncio.sleep(1.1)
    await bed.create_pods([pod("younger", container(10))])
    claims = {"younger": claim(await bound(bed, "younger"))}
    await bed.api.patch(f"{PODS}/older", {"spec": {"schedulingGates": None}})
    claims["older"] = claim(await bound(bed, "older"))
    assert claims == {"younger": "0", "older": "1"}
    await start_kubelet(node)
    for name in claims:
        await running(bed, name)
    assert cards_of(node) == {"older": 0, "younger": 1}
    await until_agreed(node, gpus.extender)
    for name, index in (("older", 0), ("younger", 1)):
        found = await bed.api.get(f"{PODS}/{name}")
        assert claim(found) == str(index)
        text = f"allocated 10 on GPU {index}; its annotations had reserved GPU {1 - index}"
        await until_event(bed, name, text.__eq__, contract.EVENT_ASSIGNED)
    assigned = (await node_object(node))["metadata"]["annotations"][contract.ANN_ASSIGNED_NODE]
    assert len(json.loads(assigned)) == 2


def claim(found: Object) -> str:
    return str(found["metadata"]["annotations"][contract.ANN_IDX])


async def test_a_replica_that_comes_back_with_the_same_name_gets_its_own_gpu(
    gpus: GpuBed, node: GpuNode
) -> None:
    await gpus.bed.api.create(owners("StatefulSet"), owner("StatefulSet", "again", 2, container(T4)))
    await replicas_run(gpus.bed, "again", 2)
    async with never_overcommitted(node, T4):
        for _ in range(4):
            old = await gpus.bed.api.get(f"{PODS}/again-0")
            await gpus.bed.api.delete(f"{PODS}/again-0", gracePeriodSeconds="0")

            async def back(uid: str = old["metadata"]["uid"]) -> bool:
                new = await gpus.bed.api.get(f"{PODS}/again-0")
                return bool(new["metadata"]["uid"] != uid and new["spec"].get("nodeName"))

            await until(back, "the replica to be bound again")
        await replicas_run(gpus.bed, "again", 2)
    await until_agreed(node, gpus.extender)


async def test_different_pods_with_containers_of_the_same_amount_are_distinguished(
    gpus: GpuBed, node: GpuNode
) -> None:
    """The older one is bound last and allocated first; the agent reads the order from the kubelet."""
    bed = gpus.bed
    await swept(gpus, node)
    corrected = await metric(node, "gpushare_device_plugin_corrected_pods_total")
    await node.kubelet.stop("kubelet")
    large = pod("large", container(5, "c0"), container(7, "c1"), schedulingGates=[{"name": "test/later"}])
    await bed.create_pods([large])
    # creationTimestamp has a resolution of one second.
    await asyncio.sleep(1.1)
    await bed.create_pods([pod("small", container(5))])
    claims = {"small": claim(await bound(bed, "small"))}
    await bed.api.patch(f"{PODS}/large", {"spec": {"schedulingGates": None}})
    claims["large"] = claim(await bound(bed, "large"))
    assert claims == {"small": "0", "large": "1"}
    await start_kubelet(node)
    for name in claims:
        await running(bed, name)
    assert cards_of(node) == {"small": 0, "large": 1}
    for name, containers, total in (("small", ["main"], "5"), ("large", ["c0", "c1"], "12")):
        for each in containers:
            spec = await node.kubelet.oci_spec(name, each)
            assert f"{contract.ENV_POD}={total}" in spec["process"]["env"]
    await until_agreed(node, gpus.extender)
    assert await metric(node, "gpushare_device_plugin_corrected_pods_total") == corrected
