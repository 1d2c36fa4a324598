"""Pods with a reused name, pods that terminate slowly, and pods that preempt others."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from gpushare.contract import ANN_MODE, ANN_MPS_MULTI_USER, LABEL_MODE
from gpushare.errors import ApiError
from testbed import SLOW_DELETE, Bed, SchedulerSpec, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.control_plane.scheduler import LEGACY
from testbed.daemons.extender import (
    ACCOUNT,
    ExtenderSpec,
    component_config,
    create_released_lease,
    grant,
    start_extender,
)
from testbed.programs.binaries import release
from testbed.stories import manifest
from tests.support.fakes.fault_proxy import fault_proxy
from tests.support.fixtures.extenders import QUICK
from tests.support.fixtures.simulated import clear
from tests.support.history import Recorder, cards_of, overcommits
from tests.support.metrics import total

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="session")]

CLASSES = {"high": 1000, "middle": 10, "low": 1}
PRIORITIES = "---".join(
    f"""
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: {name}}}
value: {value}
"""
    for name, value in CLASSES.items()
)
VERSIONS = pytest.mark.parametrize("version", [release(), LEGACY], scope="module")


@dataclass
class Cluster:
    """A control plane with one extender for all tests; each test adds a node with another name."""

    bed: Bed
    extender: ExtenderSpec
    node: str = ""
    numbers: Iterator[int] = field(default_factory=count)

    async def schedule_with(self, version: str | None, extender: ExtenderSpec) -> None:
        """Run a scheduler of this version that calls this extender."""
        entry = component_config(extender.url, legacy=version == LEGACY)
        spec = SchedulerSpec(version, extenders=[entry])
        if self.bed.scheduler != spec:
            if "kube-scheduler" in self.bed.processes:
                # The old version ends only ten seconds after a SIGTERM.
                await self.bed.kill("kube-scheduler")
            await self.bed.restart_scheduler(spec)

    @asynccontextmanager
    async def own_extender(self, *flags: str, kubeconfig: Path | None = None) -> AsyncIterator[ExtenderSpec]:
        """One with its own Lease, which the scheduler calls instead of the shared one."""
        name = f"own-{next(self.numbers)}"
        spec = ExtenderSpec(name, flags=[*flags, f"--lease-name={name}"])
        await create_released_lease(self.bed, name)
        process = await start_extender(self.bed, spec, kubeconfig)
        try:
            await self.schedule_with(self.bed.scheduler.version, spec)
            yield spec
        finally:
            await process.stop()

    async def with_node(self, *cards: SimGpu, **fields: Any) -> Bed:
        """Add a node with these GPUs."""
        self.node = f"n-{next(self.numbers)}"
        await self.bed.add_nodes([SimNode(self.node, cards, **fields)])
        return self.bed

    async def preempt_calls(self) -> float:
        """How often a scheduler has asked the shared extender which pods to evict."""
        return await total(self.extender.ops_url, "gpushare_extender_requests_total", verb="preempt")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(clean_bed: Bed) -> Cluster:
    spec = ExtenderSpec()
    await grant(clean_bed)
    await start_extender(clean_bed, spec)
    await clean_bed.apply(PRIORITIES)
    return Cluster(clean_bed, spec)


@pytest.fixture
def version() -> str:
    """Of the scheduler; a test with ``VERSIONS`` runs with each."""
    return release()


@pytest_asyncio.fixture(loop_scope="session")
async def cluster(shared: Cluster, version: str) -> AsyncIterator[Cluster]:
    """The shared cluster with a scheduler of this version, and no nodes or pods of other tests."""
    await shared.schedule_with(version, shared.extender)
    yield shared
    await clear(shared.bed, shared.extender)


async def pod(bed: Bed, name: str) -> Object | None:
    return next((p for p in await bed.api.items("/api/v1/pods") if p["metadata"]["name"] == name), None)


async def until_told(bed: Bed, name: str, matches: Callable[[str], bool]) -> None:
    """Wait for such an event about the pod that has this name now; other tests had pods of this name too."""
    uid = (await pod(bed, name) or {})["metadata"]["uid"]

    async def told() -> bool:
        events = await bed.api.items("/api/v1/events", fieldSelector=f"involvedObject.uid={uid}")
        return any(matches(each["message"]) for each in events)

    await until(told, f"an event about {name}")


async def until_placed(bed: Bed, *names: str, timeout_s: float = 30) -> None:
    for name in names:

        async def placed(name: str = name) -> bool:
            found = await pod(bed, name)
            return bool(found and found["spec"].get("nodeName"))

        await until(placed, f"pod {name} to be placed", timeout_s, 0.1)


async def test_a_statefulset_pod_that_is_deleted_and_comes_back_fast_is_counted_once(
    cluster: Cluster,
) -> None:
    bed = await cluster.with_node(SimGpu(units=15))
    async with Recorder(bed.api) as recorder:
        await bed.apply(manifest("app-3g-v1"))
        await until_placed(bed, "app-3g-v1-0", "app-3g-v1-1")
        for _ in range(8):
            # kwok deletes by name, without the UID; if it is late, it deletes the successor.
            old = await until(lambda: pod(bed, "app-3g-v1-0"), "the replica to exist")
            with suppress(ApiError):
                await bed.api.delete("/api/v1/namespaces/default/pods/app-3g-v1-0", gracePeriodSeconds="0")

            async def back(uid: str = old["metadata"]["uid"]) -> bool:
                new = await pod(bed, "app-3g-v1-0")
                return bool(new and new["metadata"]["uid"] != uid and new["spec"].get("nodeName"))

            await until(back, "the replica to be placed again")
        assert overcommits(await recorder.caught_up(), 15) == []
        # Two replicas use 8 of 15 units: exactly 7 fit, unless a reservation has leaked or was lost.
        await bed.create_pods([gpu_pod("seven", 7)])
        await until_placed(bed, "seven")


async def test_a_pod_with_a_long_grace_period_keeps_its_units_until_it_is_gone(cluster: Cluster) -> None:
    bed = await cluster.with_node(SimGpu())
    async with Recorder(bed.api) as recorder:
        await bed.create_pods(
            [gpu_pod("slow", 14, annotations={SLOW_DELETE: "true"}, terminationGracePeriodSeconds=600)]
        )
        await until_placed(bed, "slow")
        await bed.api.delete("/api/v1/namespaces/default/pods/slow")
        await bed.create_pods([gpu_pod("next", 14)])
        await until_told(bed, "next", lambda text: "at most 0 of 14 free on GPU 0" in text)
        assert not (await pod(bed, "next") or {})["spec"].get("nodeName")
        await bed.api.delete("/api/v1/namespaces/default/pods/slow", gracePeriodSeconds="0")
        await until_placed(bed, "next")
        assert overcommits(await recorder.caught_up(), 14) == []


# --- preemption ---------------------------------------------------------------------------------

BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: guard, namespace: default}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: guarded}}
"""


async def one_by_one(bed: Bed, *pods: Object) -> None:
    """Place pods one after the other, which packs one GPU before the next."""
    for each in pods:
        await bed.create_pods([each])
        await until_placed(bed, each["metadata"]["name"])


async def important(bed: Bed, name: str, units: int, **resources: int) -> None:
    await bed.create_pods([gpu_pod(name, units, resources=resources, priorityClassName="high")])


async def until_left(bed: Bed, *expected: set[str]) -> None:
    """Wait until one of these sets is left: the preemptor can start before the last victim is gone."""
    left: set[str] = set()

    async def met() -> bool:
        nonlocal left
        left = {p["metadata"]["name"] for p in await bed.api.items("/api/v1/pods")}
        return left in expected or any(left < each for each in expected)

    await until(met, f"one of {expected} to be left")
    assert left in expected


@VERSIONS
async def test_victims_of_the_scheduler_that_free_one_gpu_are_the_only_ones(cluster: Cluster) -> None:
    bed = await cluster.with_node(SimGpu(), SimGpu())
    async with Recorder(bed.api) as recorder:
        spared = (gpu_pod(f"spared-{index}", 7, priorityClassName="middle") for index in range(2))
        await one_by_one(bed, *(gpu_pod(f"low-{index}", 7) for index in range(2)), *spared)
        await important(bed, "high", 14)
        await until_placed(bed, "high")
        await until_left(bed, {"high", "spared-0", "spared-1"})
        assert overcommits(await recorder.caught_up(), 14) == []


@contextmanager
def replaced(path: Path, other: Path) -> Iterator[None]:
    """A file with the content of another one."""
    kept = path.read_text()
    path.write_text(other.read_text())
    try:
        yield
    finally:
        path.write_text(kept)


@VERSIONS
async def test_a_preemptor_is_placed_although_the_watches_of_the_extender_are_late(cluster: Cluster) -> None:
    """The scheduler tries it for the last time when the last victim is gone; the watches show that later."""
    bed = await cluster.with_node(SimGpu())
    async with (
        fault_proxy(bed.api_url, bed.credentials.context(ACCOUNT)) as proxy,
        cluster.own_extender(kubeconfig=proxy.kubeconfig(bed.folder)),
    ):
        await one_by_one(bed, *(gpu_pod(f"low-{index}", 7) for index in range(2)))
        proxy.watch_delay_s = 0.5
        await important(bed, "high", 14)
        await until_placed(bed, "high")


@VERSIONS
async def test_a_preemptor_is_placed_although_no_watch_shows_its_nominated_node(cluster: Cluster) -> None:
    """The scheduler writes it late, and tries the pod before it sees what it wrote."""
    bed = await cluster.with_node(SimGpu())

    async def gone() -> bool:
        return all(scheduler.has_shown_deletion(f"low-{index}") for index in range(2))

    async def late(request: web.Request) -> None:
        if request.method == "PATCH" and request.path.endswith("/pods/high/status"):
            await until(gone, "the scheduler to see that the victims are gone")
            scheduler.watches_flow.clear()

    async with (
        fault_proxy(bed.api_url, bed.credentials.context("system:kube-scheduler")) as scheduler,
        fault_proxy(bed.api_url, bed.credentials.context(ACCOUNT)) as extender,
    ):
        with replaced(bed.layout.kubeconfig("kube-scheduler"), scheduler.kubeconfig(bed.folder)):
            async with cluster.own_extender(kubeconfig=extender.kubeconfig(bed.folder)):
                await one_by_one(bed, *(gpu_pod(f"low-{index}", 7) for index in range(2)))
                scheduler.faults.append(late)
                extender.watches_flow.clear()
                await important(bed, "high", 14)
                await until_placed(bed, "high")


@VERSIONS
async def test_victims_of_the_scheduler_on_different_gpus_are_completed_on_one(cluster: Cluster) -> None:
    bed = await cluster.with_node(SimGpu(), SimGpu())
    async with Recorder(bed.api) as recorder:
        classes = ("low", "middle")
        await one_by_one(
            bed, *(gpu_pod(f"{gpu}-{each}", 7, priorityClassName=each) for gpu in "ab" for each in classes)
        )
        placed = {p["metadata"]["name"]: cards_of(p) for p in await bed.api.items("/api/v1/pods")}
        assert placed["a-low"] == placed["a-middle"] != placed["b-low"] == placed["b-middle"]
        await important(bed, "high", 14)
        await until_placed(bed, "high")
        await until_left(bed, {"high", "a-middle"}, {"high", "b-middle"})
        assert overcommits(await recorder.caught_up(), 14) == []


@VERSIONS
async def test_a_pod_that_needs_cpu_and_gpu_memory_preempts_for_both_at_once(cluster: Cluster) -> None:
    """The scheduler proposes the pod with the CPU; that frees no GPU, so the extender adds another one."""
    bed = await cluster.with_node(SimGpu(), SimGpu(), cpu="8")
    await one_by_one(
        bed,
        gpu_pod("stays", 8, priorityClassName="high"),
        gpu_pod("has-cpu", 4, resources={"cpu": 6}),
        gpu_pod("idle", 1),
        gpu_pod("has-gpu", 10),
    )
    before = await cluster.preempt_calls()
    await important(bed, "high", 9, cpu=6)
    await until_placed(bed, "high")
    await until_left(bed, {"high", "stays", "idle"})
    assert await cluster.preempt_calls() == before + 1


@VERSIONS
async def test_a_pod_with_an_exhausted_disruption_budget_is_spared(cluster: Cluster) -> None:
    bed = await cluster.with_node(SimGpu(), SimGpu())
    await bed.apply(BUDGET)
    await one_by_one(
        bed,
        gpu_pod("guarded", 10, labels={"app": "guarded"}),
        gpu_pod("costs-more", 7, priorityClassName="middle"),
        gpu_pod("proposed", 3),
    )
    await important(bed, "high", 10)
    await until_placed(bed, "high")
    await until_left(bed, {"high", "guarded"})


@VERSIONS
async def test_no_other_pod_gets_the_freed_gpu_while_the_victim_terminates(cluster: Cluster) -> None:
    bed = await cluster.with_node(SimGpu())
    slow = gpu_pod("low", 10, annotations={SLOW_DELETE: "true"}, terminationGracePeriodSeconds=600)
    await bed.create_pods([slow])
    await until_placed(bed, "low")
    await important(bed, "high", 14)

    async def nominated() -> bool:
        found = await pod(bed, "high")
        return bool(found and found["status"].get("nominatedNodeName") == cluster.node)

    await until(nominated, "the preemptor to be nominated")
    # Four units are free now, and the thief has the preemptor's own priority.
    await bed.create_pods([gpu_pod("thief", 4, priorityClassName="high")])
    await until_told(bed, "thief", lambda text: "fit" in text or "Insufficient" in text)
    await bed.api.delete("/api/v1/namespaces/default/pods/low", gracePeriodSeconds="0")
    await until_placed(bed, "high")
    assert not (await pod(bed, "thief") or {})["spec"].get("nodeName")


async def test_a_pod_larger_than_any_gpu_evicts_no_pod(cluster: Cluster) -> None:
    bed = await cluster.with_node(SimGpu(), SimGpu())
    await bed.create_pods([gpu_pod("low", 10)])
    await until_placed(bed, "low")
    await important(bed, "huge", 15)
    await until_told(bed, "huge", lambda text: "asked 15, the largest GPU has 14" in text)
    assert (await pod(bed, "low") or {})["metadata"].get("deletionTimestamp") is None


@VERSIONS
async def test_fragmented_units_are_recorded_as_each_scheduler_leaves_them(cluster: Cluster) -> None:
    """The total is enough but no GPU is: schedulers find no victims and never call the extender.

    The pod waits with a reason per GPU; nothing is evicted and nothing is over-committed.
    """
    bed = await cluster.with_node(SimGpu(), SimGpu())
    for name, units in (("a", 8), ("b", 8)):
        await bed.create_pods([gpu_pod(name, units)])
        await until_placed(bed, name)
    await important(bed, "high", 12)
    await until_told(bed, "high", lambda text: "asked 12, at most 6 of 14 free on GPU 0" in text)
    pods = {p["metadata"]["name"]: p for p in await bed.api.items("/api/v1/pods")}
    assert all(pods[name]["metadata"].get("deletionTimestamp") is None for name in ("a", "b"))


async def test_a_waiting_pod_is_placed_once_enough_units_are_free(cluster: Cluster) -> None:
    """The scheduler retries on an event that the extender has not seen yet."""
    bed = await cluster.with_node(SimGpu(units=4))
    await bed.create_pods([gpu_pod("pod-0", 4)])
    await until_placed(bed, "pod-0")
    for number in range(1, 16):
        await bed.create_pods([gpu_pod(f"pod-{number}", 4)])
        await until_told(bed, f"pod-{number}", lambda text: "asked 4" in text)
        await bed.api.delete(f"/api/v1/namespaces/default/pods/pod-{number - 1}", gracePeriodSeconds="0")
        await until_placed(bed, f"pod-{number}", timeout_s=20)


# --- pods that share a GPU ----------------------------------------------------------------------


async def until_unschedulable(spec: ExtenderSpec, node: str, cards: int) -> None:
    async def met() -> bool:
        return await total(spec.ops_url, "gpushare_cards_unschedulable", node=node) == cards

    await until(met, f"{cards} unschedulable GPUs")


async def lies_on(bed: Bed, name: str) -> dict[int, int]:
    await until_placed(bed, name)
    return cards_of(await pod(bed, name) or {})


async def test_a_gpu_takes_no_pods_of_another_mode_until_its_own_are_gone(cluster: Cluster) -> None:
    bed = await cluster.with_node(SimGpu(), SimGpu())
    async with cluster.own_extender(*QUICK, "--api-request-timeout=4") as spec:
        await bed.create_pods([gpu_pod("old", 4)])
        assert await lies_on(bed, "old") == {0: 4}
        await bed.api.patch(f"/api/v1/nodes/{cluster.node}", {"metadata": {"labels": {LABEL_MODE: "cgpu"}}})
        await until_unschedulable(spec, cluster.node, 1)
        await bed.create_pods([gpu_pod("next", 6)])
        assert await lies_on(bed, "next") == {1: 6}
        modes = {
            p["metadata"]["name"]: p["metadata"]["annotations"] for p in await bed.api.items("/api/v1/pods")
        }
        assert (modes["old"][ANN_MODE], modes["next"][ANN_MODE]) == ("share", "cgpu")
        await bed.api.patch(
            "/api/v1/namespaces/default/pods/old", {"metadata": {"annotations": {ANN_MODE: "cgpu"}}}
        )
        await bed.kill(spec.name)
        await bed.start(spec.name)
        await until_unschedulable(spec, cluster.node, 1)
        await bed.create_pods([gpu_pod("waits", 10)])
        await until_told(bed, "waits", lambda text: "GPU 0 until pods of mode share are gone" in text)
        await bed.api.delete("/api/v1/namespaces/default/pods/old", gracePeriodSeconds="0")
        assert await lies_on(bed, "waits") == {0: 10}


async def test_an_mps_gpu_takes_one_user_unless_it_is_known_to_serve_several(cluster: Cluster) -> None:
    bed = await cluster.with_node(SimGpu(), SimGpu(), labels={LABEL_MODE: "mps"})
    for name, user, card in (("a", 1000, 0), ("b", 1000, 0), ("c", 2000, 1)):
        await bed.create_pods([gpu_pod(name, 4, securityContext={"runAsUser": user})])
        assert await lies_on(bed, name) == {card: 4}
    await bed.create_pods([gpu_pod("other", 4, securityContext={"runAsUser": 3000}), gpu_pod("unknown", 4)])
    await until_told(
        bed, "other", lambda text: "runs as user 3000, GPU 0 serves 1000, GPU 1 serves 2000" in text
    )
    await until_told(bed, "unknown", lambda text: "set securityContext.runAsUser" in text)
    seen = {"metadata": {"annotations": {ANN_MPS_MULTI_USER: "true"}}}
    await bed.api.patch(f"/api/v1/nodes/{cluster.node}", seen)
    await until_placed(bed, "other", "unknown")
