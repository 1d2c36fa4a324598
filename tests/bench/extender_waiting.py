"""The cost of pods that wait: 300 of them on nodes of mode ``core_mem``, while a pod is bound every second.

Each bind and each deletion makes kube-scheduler try the waiting pods again. The plain scheduler rejects them
by the totals of the nodes, the extender by their GPUs. What counts is how many times the API server has to
write waiting pods, and how long the pod takes that fits.
"""

import asyncio
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import click

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.extender_resources import PODS
from gpushare.adapters.kube.watch import Follower
from gpushare.contract import LABEL_MODE, RESOURCE_CORE
from gpushare.errors import ApiError
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.objects import Pod
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.bench.large_cluster import say, until_leads
from tests.bench.measuring import cpu_s, ms, quantile

_NODES, _SIZE, _HELD = 10, 14, 10
_LIST: Final = "/api/v1/namespaces/default/pods"
_SCHEDULER: Final = "kube-scheduler"
_WAITING_UNITS: Final = {"plain": _NODES * _SIZE, "extender": 6}
"""More than any node has in total; fewer than a node has free, and more than a GPU has free."""


@dataclass(frozen=True)
class _Run:
    """Seconds from the creation of a pod to its bind, writes of waiting pods, processor seconds."""

    delays_s: list[float]
    writes: int
    scheduler_s: float


class _Seen:
    """What the watch of pods shows: binds, and changes of waiting pods."""

    def __init__(self) -> None:
        self.bound_at: dict[str, float] = {}
        self.writes = 0

    def changed(self, batch: Iterable[Upserted[Pod] | Deleted]) -> None:
        """Note binds and writes."""
        now = time.monotonic()
        for change in batch:
            if isinstance(change, Upserted) and change.value.node:
                self.bound_at.setdefault(change.value.name, now)
            elif isinstance(change, Upserted) and change.value.name.startswith("waits-"):
                self.writes += 1

    def synced(self, resource: str) -> None:
        """Nothing to do."""

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:  # noqa: ARG002 - the protocol
        """Report it: it may spoil the figures."""
        say(f"  watch of {resource}: {error}")


async def measure_waiting(rounds: int, pods: int, seconds: int) -> None:
    """Print a table of both arms, which alternate their order."""
    spec = ExtenderSpec()
    arms = {
        "plain": SchedulerSpec(extenders=[]),
        "extender": SchedulerSpec(extenders=[component_config(spec.url)]),
    }
    results: dict[str, list[_Run]] = {name: [] for name in arms}
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        await grant(bed)
        await bed.add_nodes(
            [
                SimNode(
                    f"n{number}",
                    [SimGpu(units=_SIZE)] * 2,
                    labels={LABEL_MODE: "core_mem"},
                    allocatable={RESOURCE_CORE: "200"},
                )
                for number in range(_NODES)
            ]
        )
        await start_extender(bed, spec)
        await until_leads(spec)
        for number in range(rounds):
            for name in list(arms) if number % 2 else reversed(arms):
                run = await _run(bed, arms[name], _WAITING_UNITS[name], pods, seconds)
                say(f"round {number + 1}, {name}: {run.writes} writes, p50 {ms(quantile(run.delays_s, 0.5))}")
                results[name].append(run)
    _report(results, seconds)


async def _run(bed: Bed, scheduler: SchedulerSpec, units: int, pods: int, seconds: int) -> _Run:
    await bed.restart_scheduler(scheduler)
    await bed.create_pods([_pod(f"holds-{number}", _HELD, 50) for number in range(2 * _NODES)])
    seen = _Seen()
    async with KubeClient(await load_access(str(bed.kubeconfig))) as client:
        follower = asyncio.create_task(Follower(client, PODS, seen).run())
        try:
            await _until_bound(seen, 2 * _NODES)
            await bed.create_pods([_pod(f"waits-{number}", units, 5) for number in range(pods)])
            await until(lambda: _all_tried(bed, pods), "the scheduler to try all waiting pods", 120)
            writes, used_s = seen.writes, cpu_s(bed.process(_SCHEDULER).pid)
            delays = [await _bind_one(bed, seen, number) for number in range(seconds)]
            return _Run(delays, seen.writes - writes, cpu_s(bed.process(_SCHEDULER).pid) - used_s)
        finally:
            follower.cancel()
            await bed.restart_scheduler(SchedulerSpec(None))
            await bed.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", timeout_s=180)


async def _bind_one(bed: Bed, seen: _Seen, number: int) -> float:
    """Create a pod, wait for its bind, and delete it, one a second."""
    name, began = f"fits-{number}", time.monotonic()
    await bed.create_pods([_pod(name, 1, 5)])

    async def bound() -> bool:
        return name in seen.bound_at

    await until(bound, f"{name} to be bound", 60, 0.01)
    await bed.api.delete(f"{_LIST}/{name}")
    await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))
    return seen.bound_at[name] - began


def _pod(name: str, units: int, core: int) -> dict[str, object]:
    return gpu_pod(name, units, resources={RESOURCE_CORE: core}, terminationGracePeriodSeconds=0)


async def _until_bound(seen: _Seen, number: int) -> None:
    async def bound() -> bool:
        return len(seen.bound_at) >= number

    await until(bound, f"{number} bound pods", 60)


async def _all_tried(bed: Bed, pods: int) -> bool:
    found = await bed.api.items(_LIST)
    return (
        sum(bool(each["status"].get("conditions")) and "nodeName" not in each["spec"] for each in found)
        >= pods
    )


def _report(results: dict[str, list[_Run]], seconds: int) -> None:
    click.echo(
        f"\n| scheduler | writes of waiting pods in {seconds} s | bind p50 | p99 | its processor time |"
    )
    click.echo("|---|---|---|---|---|")
    for name, runs in results.items():
        writes = ", ".join(str(run.writes) for run in runs)
        p50, p99 = (_median([quantile(run.delays_s, part) for run in runs]) for part in (0.5, 0.99))
        used = statistics.median(run.scheduler_s for run in runs)
        click.echo(f"| {name} | {writes} | {p50} | {p99} | {used:.1f} s |")


def _median(seconds: list[float]) -> str:
    return ms(statistics.median(seconds))
