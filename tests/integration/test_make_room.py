"""Room for a pod that fits on no GPU although its node has enough units in all.

kube-scheduler asks its preemption for such a pod, which sees that the node has the units and names no victim.
"""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gpushare.contract import EVENT_EVICTED, EVENT_ROOM
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons import console_script
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.support.fixtures.simulated import clear
from tests.support.history import Recorder, overcommits
from tests.support.metrics import total

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="session")]

CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gentle}
value: 900
preemptionPolicy: Never
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: guard, namespace: default}
spec:
  maxUnavailable: 0
  selector: {matchLabels: {app: low}}
"""
FLAGS = ("--make-room=evict", "--make-room-after=1")
NOT_ENOUGH = "expected at least one victim pod"


class Cluster:
    """A control plane whose scheduler calls an extender that makes room after a second."""

    def __init__(self, bed: Bed, extender: ExtenderSpec) -> None:
        self.bed = bed
        self.extender = extender

    async def evictions(self, outcome: str) -> float:
        return await total(self.extender.ops_url, "gpushare_extender_evictions_total", outcome=outcome)

    async def pods(self, app: str) -> list[Object]:
        return await self.bed.api.items("/api/v1/pods", labelSelector=f"app={app}")

    async def placed(self, app: str) -> list[str]:
        return [each["metadata"]["name"] for each in await self.pods(app) if each["spec"].get("nodeName")]

    async def until_placed(self, app: str, count: int) -> None:
        async def all_placed() -> bool:
            return len(await self.placed(app)) == count

        await until(all_placed, f"{count} pods {app} to be placed", 60, 0.1)

    async def replicas(self, app: str, count: int, units: int) -> None:
        """Pods of a ReplicaSet, which replaces those that are evicted."""
        template = gpu_pod(app, units, labels={"app": app})
        await self.bed.api.create(
            "/apis/apps/v1/namespaces/default/replicasets",
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": app},
                "spec": {
                    "replicas": count,
                    "selector": {"matchLabels": {"app": app}},
                    "template": {
                        "metadata": {"labels": template["metadata"]["labels"]},
                        "spec": template["spec"],
                    },
                },
            },
        )

    async def important(self, units: int) -> None:
        await self.bed.create_pods([gpu_pod("high", units, labels={"app": "high"}, priorityClassName="high")])

    async def until_told(self, reason: str, text: str) -> Object:
        async def told() -> Object | None:
            events = await self.bed.api.items("/api/v1/events", fieldSelector=f"reason={reason}")
            return next((each for each in events if text in each["message"]), None)

        return await until(told, f"an event {reason} with {text!r}", 60)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(clean_bed: Bed) -> AsyncIterator[Cluster]:
    spec = ExtenderSpec(flags=FLAGS)
    await grant(clean_bed, evicts=True)
    process = await start_extender(clean_bed, spec)
    await clean_bed.restart_scheduler(SchedulerSpec(extenders=[component_config(spec.url)]))
    await clean_bed.apply(CLASSES)
    yield Cluster(clean_bed, spec)
    await process.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def cluster(shared: Cluster) -> AsyncIterator[Cluster]:
    """One node with two GPUs of 14 units."""
    await shared.bed.add_nodes([SimNode("n", (SimGpu(), SimGpu()))])
    yield shared
    await clear(shared.bed, shared.extender)


async def test_a_pod_of_high_priority_gets_the_room_of_one_pod_of_low_priority(cluster: Cluster) -> None:
    """The replacement, and pods that waited for room before, do not get it."""
    async with Recorder(cluster.bed.api) as recorder:
        await cluster.replicas("low", 2, 8)
        await cluster.until_placed("low", 2)
        await cluster.replicas("rival", 2, 10)
        before = await cluster.evictions("evicted")
        await cluster.important(12)
        told = await cluster.until_told(EVENT_EVICTED, "evicted from node n")
        leaving = told["involvedObject"]["name"]
        await cluster.until_placed("high", 1)
        assert await cluster.placed("rival") == []
        assert await cluster.evictions("evicted") == before + 1
        assert "for pod high of priority 1000" in told["message"]
        assert leaving in (await cluster.until_told(EVENT_ROOM, "to make room for this pod"))["message"]
        assert overcommits(await recorder.caught_up(), 14) == []


async def test_the_scheduler_itself_names_no_victim_there(cluster: Cluster) -> None:
    """Pods without a controller are not evicted, so only the scheduler could help."""
    for index in range(2):
        await cluster.bed.create_pods([gpu_pod(f"bare-{index}", 8, labels={"app": "bare"})])
        await cluster.until_placed("bare", index + 1)
    await cluster.important(12)
    await cluster.until_told(EVENT_ROOM, "no eviction of pods of lower priority would make room")
    assert len(await cluster.placed("bare")) == 2
    assert await cluster.placed("high") == []
    told = await cluster.until_told("FailedScheduling", "preemption")
    assert NOT_ENOUGH in told["message"] or "No preemption victims found" in told["message"]


async def test_a_disruption_budget_makes_the_pod_wait(cluster: Cluster) -> None:
    await cluster.bed.apply(BUDGET)
    await cluster.replicas("low", 2, 8)
    await cluster.until_placed("low", 2)
    await cluster.important(12)
    await cluster.until_told(EVENT_ROOM, "disruption budgets forbid")
    assert len(await cluster.placed("low")) == 2
    await cluster.bed.api.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/guard")
    await cluster.until_placed("high", 1)


async def test_a_pod_that_must_not_preempt_waits(cluster: Cluster) -> None:
    await cluster.replicas("low", 2, 8)
    await cluster.until_placed("low", 2)
    before = await cluster.evictions("evicted")
    await cluster.bed.create_pods(
        [
            gpu_pod("gentle", 12, labels={"app": "gentle"}, priorityClassName="gentle"),
            gpu_pod("high", 12, labels={"app": "high"}, priorityClassName="high"),
        ]
    )
    await cluster.until_placed("high", 1)
    assert await cluster.placed("gentle") == []
    assert await cluster.evictions("evicted") == before + 1


async def test_a_follower_that_the_scheduler_asks_tells_the_leader(cluster: Cluster) -> None:
    bed = cluster.bed
    follower = ExtenderSpec("follower", flags=FLAGS)
    process = await start_extender(bed, follower)
    await bed.restart_scheduler(SchedulerSpec(extenders=[component_config(follower.url)]))
    try:
        await cluster.replicas("low", 2, 8)
        await cluster.until_placed("low", 2)
        before = await cluster.evictions("evicted")
        await cluster.important(12)
        await cluster.until_placed("high", 1)
        assert await cluster.evictions("evicted") == before + 1
        assert await total(follower.ops_url, "gpushare_extender_evictions_total") == 0
    finally:
        await bed.restart_scheduler(SchedulerSpec(extenders=[component_config(cluster.extender.url)]))
        await process.stop()


async def test_defrag_moves_a_pod_that_fits_elsewhere(cluster: Cluster) -> None:
    """All have the same priority, so that no pod is evicted for another one."""
    bed = cluster.bed
    await cluster.replicas("stays", 1, 8)
    await cluster.until_placed("stays", 1)
    await bed.create_pods([gpu_pod("filler", 10, labels={"app": "filler"})])
    await cluster.until_placed("filler", 1)
    await cluster.replicas("moves", 1, 4)
    await cluster.until_placed("moves", 1)
    (moved,) = await cluster.placed("moves")
    await bed.api.delete("/api/v1/namespaces/default/pods/filler", gracePeriodSeconds="0")
    await bed.create_pods([gpu_pod("large", 14, labels={"app": "large"})])
    await cluster.until_told("FailedScheduling", "Insufficient GPU Memory")
    plan = await defrag(bed, "-o", "json")
    ((step,),) = [each["steps"] for each in json.loads(plan)["items"]]
    assert (step["name"], step["from"], step["to"]) == (moved, "n", "n")
    assert await cluster.placed("large") == []
    said = await defrag(bed, "--apply", "--yes", "--timeout=1m")
    assert said.splitlines()[-1] == "default/large is on node n"
    assert len(await cluster.placed("large")) == len(await cluster.placed("moves")) == 1
    assert await cluster.placed("moves") != [moved]


async def defrag(bed: Bed, *flags: str) -> str:
    """What the command prints; fails if it fails."""
    process = await asyncio.create_subprocess_exec(
        console_script("kubectl-gpushare"),
        "defrag",
        f"--kubeconfig={bed.kubeconfig}",
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()
