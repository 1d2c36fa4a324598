"""Outages of the API server and of the driver; on a real kubelet."""

import pytest

from gpushare import contract
from testbed import until
from testbed.control_plane.api import Object
from testbed.daemons.agent import GpuNode
from tests.support.fixtures.agents import Link, prefers
from tests.support.fixtures.gpu_nodes import (
    PODS,
    T4,
    GpuBed,
    bound,
    container,
    metric,
    owner,
    owners,
    pod,
    replicas_run,
    running,
    start_pods,
    until_allocatable,
    until_event,
    until_unhealthy,
)
from tests.support.recount import (
    cards_of,
    live,
    until_agreed,
)

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="package")]


async def test_a_pod_that_was_seen_starts_while_api_server_and_driver_do_not_answer(
    gpus: GpuBed, node: GpuNode, link: Link
) -> None:
    bed = gpus.bed
    await start_pods(bed, pod("fills-card-0", container(T4)))
    await node.kubelet.pause("kubelet")
    await bed.create_pods([pod("seen", container(7))])
    await bound(bed, "seen")
    await until(lambda: prefers(node, 1, 7), "the agent to have seen the pod")
    link.cut()
    await node.kubelet.pause("api")
    node.stub.hang()
    await node.kubelet.resume("kubelet")

    async def started() -> bool:
        return cards_of(node) == {"fills-card-0": 0, "seen": 1}

    await until(started, "the pod to start")
    there = live(node)

    async def noticed() -> bool:
        return await metric(node, "gpushare_device_plugin_cards", state="unhealthy") == 2

    await until(noticed, "the agent to notice that the driver hangs")
    assert await metric(node, "gpushare_device_plugin_nvml_up") == 0
    assert (await bed.api.get(f"{PODS}/seen"))["metadata"]["annotations"][contract.ANN_ASSIGNED] == "false"
    await node.kubelet.resume("api")
    link.restore()
    await running(bed, "seen")
    await until_agreed(node, gpus.extender)
    await until_unhealthy(node, "0,1")
    await until_allocatable(node, 0)
    node.stub.release()
    await until_unhealthy(node, "")
    await until_allocatable(node, 2 * T4)
    assert await metric(node, "gpushare_device_plugin_nvml_up") == 1
    assert live(node) == there


async def test_pods_that_the_agent_cannot_see_fail_with_the_reason_and_their_owners_recover(
    gpus: GpuBed, node: GpuNode, link: Link
) -> None:
    bed = gpus.bed
    link.cut()
    await bed.api.create(owners("Deployment"), owner("Deployment", "deployed", 1, container(3)))

    async def placed() -> bool:
        pods = await bed.api.items(PODS, labelSelector="app=deployed")
        return any(each["spec"].get("nodeName") for each in pods)

    await until(placed, "the pod to be bound")
    await bed.api.create(owners("StatefulSet"), owner("StatefulSet", "stateful", 1, container(4)))

    async def refused() -> Object | None:
        pods = await bed.api.items(PODS, labelSelector="app=deployed")
        return next((each for each in pods if each["status"]["phase"] == "Failed"), None)

    found = await until(refused, "the pod to be rejected")
    assert found is not None
    assert found["status"]["reason"] == "UnexpectedAdmissionError"
    assert "no container on node faulty waits for 3 of aliyun.com/gpu-mem" in found["status"]["message"]
    # The controller of a StatefulSet deletes a failed pod at once: only the event remains.
    await until_event(bed, "stateful-0", lambda text: "waits for 4" in text)
    link.restore()
    for app in ("deployed", "stateful"):
        await replicas_run(bed, app, 1)
    await until_agreed(node, gpus.extender)
