"""``make bench PART=extender``: the cost of the extender, on a real control plane.

Four parts. *Large*: 5,000 nodes and 50,000 pods: time to ready after a cold start, resident memory,
and the latency of filter for 100, 1,000 and 5,000 names over one keep-alive connection, as the
scheduler's client makes it. *Busy*: filter on the same cluster while something else loads the extender
(``extender_busy``). *Waiting*: pods that fit on no GPU, while others are bound (``extender_waiting``).
*Throughput*: 1,000 nodes of 8 cards and 3,000 pods through the same
kube-scheduler without and with the extender, on shared cores and with a core for the extender alone, arms
interleaved; the ratio is the figure that counts.

Any other extender is a further arm of *large* and of *throughput*: ``--rival`` (``tests.bench.rival``).
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
from prometheus_client.parser import text_string_to_metric_families

from devkit.process import Process
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.extender_resources import PODS
from gpushare.adapters.kube.watch import Follower
from gpushare.contract import EXTENDER_PREFIX
from gpushare.errors import ApiError, GpuShareError
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.objects import Pod
from testbed import SLOW_START, Bed, SchedulerSpec, Testbed, gpu_pod, until
from testbed.control_plane.api import read_text
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.bench.extender_busy import Busy, measure_busy
from tests.bench.extender_waiting import measure_waiting
from tests.bench.filter_client import measure
from tests.bench.large_cluster import create, node_name, say, sim_node, until_leads
from tests.bench.measuring import Cores, all_cores, cpu_s, pin, quantile, rss_mib
from tests.bench.rival import Rival, check, start_rival
from tests.support.machine import machine

SIZES = (100, 1000, 5000)
PLAIN, UNUSED, RIVAL = "plain", "unused extender", "rival"
_CALLS = {100: 2000, 1000: 1000, 5000: 400}
"""Calls for up to that many names."""
_WARM_UP = 50
_FITS, _TOO_MANY = 2, 15
"""Units of a pod that fits on each node of the large cluster, and of one that fits on none."""


@click.command()
@click.option("--nodes", default=5000, show_default=True, help="Nodes of the large cluster.")
@click.option("--pods", default=50_000, show_default=True, help="Pods of the large cluster.")
@click.option("--placed-nodes", default=1000, show_default=True, help="Nodes of the throughput part.")
@click.option("--placed-pods", default=3000, show_default=True, help="Pods of each of its rounds.")
@click.option("--rival", envvar="RIVAL", help="Another extender: a command that reads PORT and KUBECONFIG.")
@click.option("--rival-prefix", default=EXTENDER_PREFIX, show_default=True, help="Path of its verbs.")
@click.option("--rounds", default=5, show_default=True, help="Rounds of each arm.")
@click.option("--shortlist", default=100, show_default=True, help="Nodes of the arm with a shortlist.")
@click.option("--arm", multiple=True, help="Only arms with this in their name; may be repeated.")
@click.option("--busy-seconds", default=30.0, show_default=True, help="Duration of each arm with a load.")
@click.option("--busy-arm", multiple=True, help="Only loads with this in their name; may be repeated.")
@click.option("--skip-busy", is_flag=True, help="No loads on the large cluster.")
@click.option("--skip-large", is_flag=True, help="No large cluster.")
@click.option("--waiting", default=300, show_default=True, help="Pods that wait while others are bound.")
@click.option("--waiting-seconds", default=30, show_default=True, help="Duration of each arm with them.")
@click.option("--skip-waiting", is_flag=True, help="No pods that wait.")
@click.option("--skip-throughput", is_flag=True, help="No pods per second.")
def main(**flags: Any) -> None:
    """Print the results as Markdown."""
    click.echo(machine())
    try:
        _measure(flags)
    except GpuShareError as error:
        raise click.ClickException(str(error)) from error


def _measure(flags: Mapping[str, Any]) -> None:
    rounds = flags["rounds"]
    if flags["rival_prefix"] != EXTENDER_PREFIX and not flags["rival"]:
        raise click.UsageError("--rival-prefix is for another extender: name its command with --rival")
    rival = Rival(flags["rival"], flags["rival_prefix"]) if flags["rival"] else None
    if rival:
        click.echo(f"rival: `{rival.command}`")
    if not flags["skip_large"]:
        busy = None if flags["skip_busy"] else Busy(rounds, flags["busy_seconds"], flags["busy_arm"])
        asyncio.run(large(flags["nodes"], flags["pods"], busy, rival))
    if not flags["skip_waiting"]:
        asyncio.run(measure_waiting(rounds, flags["waiting"], flags["waiting_seconds"]))
    if not flags["skip_throughput"]:
        arms = _throughput_arms(flags["shortlist"], rival, flags["arm"])
        asyncio.run(throughput(rounds, arms, flags["placed_nodes"], flags["placed_pods"]))


async def large(nodes: int, pods: int, busy: Busy | None, rival: Rival | None = None) -> None:
    """Cold start, memory and filter latency, also of the rival; then filter while the extender is busy."""
    async with Testbed(scheduler=SchedulerSpec(None), kwok=False) as bed:
        await grant(bed)
        await create(bed, nodes, pods)
        spec = ExtenderSpec()
        began = time.monotonic()
        process = await start_extender(bed, spec)
        ready_s = time.monotonic() - began
        await until_leads(spec)
        leads_s = time.monotonic() - began
        click.echo("\n| nodes | pods | ready after | binds after | resident |\n|---|---|---|---|---|")
        rss = rss_mib(process.pid)
        click.echo(f"| {nodes} | {pods} | {ready_s:.1f} s | {leads_s:.1f} s | {rss:.0f} MiB |")
        await _filter_table(bed, spec, process, nodes)
        await process.stop()
        if rival:
            await _rival_table(bed, rival, nodes)
        if busy:
            await measure_busy(bed, nodes, busy)


async def _rival_table(bed: Bed, rival: Rival, nodes: int) -> None:
    """Filter of the rival, if it answers as ours does."""
    began = time.monotonic()
    process = await start_rival(bed, rival, node_name(0))
    click.echo(f"\nrival: first answer after {time.monotonic() - began:.1f} s")
    names = [node_name(i) for i in range(min(nodes, SIZES[0]))]
    for units, expected in ((_FITS, len(names)), (_TOO_MANY, 0)):
        await check(rival, names, units, expected)
    await _filter_table(bed, rival, process, nodes)
    await process.stop()


async def _filter_table(bed: Bed, extender: ExtenderSpec | Rival, process: Process, nodes: int) -> None:
    click.echo("\n| verb | names | p50 | p99 | p99/p50 | processor time |\n|---|---|---|---|---|---|")
    for size in sorted({min(size, nodes) for size in SIZES}):
        await asyncio.to_thread(_filter_rows, extender, size, partial(_cpu_s, bed, extender.name))
    click.echo(f"\nresident after the calls: {rss_mib(process.pid):.0f} MiB")


def _filter_rows(extender: ExtenderSpec | Rival, size: int, spent_s: Callable[[], float]) -> None:
    """A pod that fits everywhere, and one that no node takes."""
    names = [node_name(i) for i in range(size)]
    calls = next(number for most, number in _CALLS.items() if size <= most)
    prefix = extender.prefix if isinstance(extender, Rival) else EXTENDER_PREFIX
    for label, units in (("filter, all pass", _FITS), ("filter, all refused", _TOO_MANY)):
        before = spent_s()
        body = json.dumps({"Pod": gpu_pod("x", units), "NodeNames": names}).encode()
        samples = measure(extender.port, body, calls, warm_up=_WARM_UP, prefix=prefix)
        cpu_ms = (spent_s() - before) / (calls + _WARM_UP) * 1e3
        p50, p99 = quantile(samples, 0.5), quantile(samples, 0.99)
        times = f"{p50 * 1e3:.2f} ms | {p99 * 1e3:.2f} ms | {p99 / p50:.1f} | {cpu_ms:.2f} ms"
        click.echo(f"| {label} | {size} | {times} |")


@dataclass(frozen=True)
class _Arm:
    """A scheduler, the extender that it calls, and where they run. ``base``: the arm without an extender."""

    scheduler: SchedulerSpec
    extender: ExtenderSpec | Rival | None
    cores: Cores
    base: str


@dataclass(frozen=True)
class _Round:
    """One arm's run: pods per second, milliseconds of processor time per pod and process.

    ``verbs``: calls and seconds of each verb, as the extender measured them itself.
    """

    rate: float
    cpu_ms: dict[str, float]
    verbs: dict[str, tuple[float, float]]


def _throughput_arms(shortlist: int, rival: Rival | None, wanted: tuple[str, ...]) -> dict[str, _Arm]:
    """The arms by name.

    The arm "unused extender" names one that wants other pods: kube-scheduler 1.35 and later switch off
    their batching of equal pods as soon as any extender is configured. Only the arm's extender runs.
    """
    whole, short = ExtenderSpec(), ExtenderSpec("shortlist", flags=[f"--shortlist={shortlist}"])
    other = component_config(whole.url) | {"managedResources": [{"name": "example.com/other"}]}
    kinds: dict[str, tuple[SchedulerSpec, ExtenderSpec | Rival | None]] = {
        PLAIN: (SchedulerSpec(extenders=[]), None),
        "extender": (SchedulerSpec(extenders=[component_config(whole.url)]), whole),
        f"extender, shortlist of {shortlist}": (
            SchedulerSpec(extenders=[component_config(short.url)]),
            short,
        ),
        UNUSED: (SchedulerSpec(extenders=[other]), None),
    }
    if rival:
        kinds[RIVAL] = (SchedulerSpec(extenders=[rival.entry]), rival)
    arms = {
        f"{name}, {cores}": _Arm(*kind, cores, f"{PLAIN}, {cores}")
        for cores in all_cores()
        for name, kind in kinds.items()
    }
    chosen = {name: arm for name, arm in arms.items() if not wanted or any(each in name for each in wanted)}
    if not chosen:
        raise click.BadParameter(f"no arm is called so: there are {'; '.join(arms)}", param_hint="--arm")
    return chosen


async def throughput(rounds: int, arms: dict[str, _Arm], nodes: int, pods: int) -> None:
    """Pods per second without and with the extender, on the same control plane and scheduler binary.

    The arms alternate their order, after a warm-up round with a tenth of the pods.
    """
    results: dict[str, list[_Round]] = {name: [] for name in arms}
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        await grant(bed)
        say(f"creating {nodes} nodes")
        await bed.add_nodes([sim_node(i) for i in range(nodes)])
        for each in {arm.extender.name: arm.extender for arm in arms.values() if arm.extender}.values():
            await (await _started(bed, each)).stop()
        for number in range(rounds + 1):
            for name in list(arms) if number % 2 else reversed(arms):
                result = await _round(bed, arms[name], pods if number else pods // 10)
                say(f"round {number or 'of warm-up'}, {name}: {result.rate:.1f} pods/s")
                if number:
                    results[name].append(result)
    _report(results, arms)


async def _started(bed: Bed, extender: ExtenderSpec | Rival) -> Process:
    if isinstance(extender, Rival):
        return await start_rival(bed, extender, node_name(0))
    return await start_extender(bed, extender)


def _report(results: dict[str, list[_Round]], arms: dict[str, _Arm]) -> None:
    click.echo("\n| arm | pods/s, each round | median | processor time per pod |\n|---|---|---|---|")
    for name, rounds in results.items():
        rates = [each.rate for each in rounds]
        shares = ", ".join(f"{process} {ms:.1f} ms" for process, ms in rounds[-1].cpu_ms.items())
        each = ", ".join(f"{rate:.1f}" for rate in rates)
        click.echo(f"| {name} | {each} | {statistics.median(rates):.1f} | {shares} |")
    click.echo("\n| arm | pods/s compared with the plain scheduler, each round | median |\n|---|---|---|")
    for name, rounds in results.items():
        base = results.get(arms[name].base, rounds)
        if base is not rounds:
            ratios = [mine.rate / plain.rate for mine, plain in zip(rounds, base, strict=True)]
            each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            click.echo(f"| {name} | {each} | {statistics.median(ratios):.2f} |")
    click.echo("\n| arm | verb | calls | mean |\n|---|---|---|---|")
    for name, rounds in results.items():
        for verb, (calls, seconds) in rounds[-1].verbs.items():
            click.echo(f"| {name} | {verb} | {calls:.0f} | {seconds / calls * 1e3:.2f} ms |")


_PROCESSES = ("kube-apiserver", "etcd", "kwok")


async def _round(bed: Bed, arm: _Arm, pods: int) -> _Round:
    """Pods are created while no scheduler runs; the time is from the first to the last binding.

    kwok leaves the bound pods alone: on real nodes that work is not done on the control plane's
    processors, and here it would fall into the time of the slower arm only.
    """
    idle = {SLOW_START: "true"}
    await bed.create_pods(
        (gpu_pod(f"p{i:04}", 1 + i % 4, annotations=idle) for i in range(pods)), concurrency=64
    )
    pin(os.getpid(), arm.cores.control_plane)  # the scheduler inherits it
    for name in _PROCESSES:
        pin(bed.process(name).pid, arm.cores.control_plane)
    if arm.extender:
        await bed.process(arm.extender.name).start()
        pin(bed.process(arm.extender.name).pid, arm.cores.extender)
        if isinstance(arm.extender, ExtenderSpec):
            await until_leads(arm.extender)
    names = (*_PROCESSES, *([arm.extender.name] if arm.extender else []))
    before = {name: _cpu_s(bed, name) for name in names}
    await bed.restart_scheduler(arm.scheduler)
    stamps = await _stamps(bed, pods)
    names = ("kube-scheduler", *names)
    cpu_ms = {name: (_cpu_s(bed, name) - before.get(name, 0)) / pods * 1e3 for name in names}
    verbs = await _verbs(arm.extender) if isinstance(arm.extender, ExtenderSpec) else {}
    await bed.restart_scheduler(SchedulerSpec(None))
    if arm.extender:
        await bed.process(arm.extender.name).stop()
    await _empty(bed)
    return _Round(pods / max(1.0, max(stamps) - min(stamps)), cpu_ms, verbs)


class _Stamps:
    """Listens to the pod watch and notes when each pod was first seen bound."""

    def __init__(self, pods: int) -> None:
        self.seen: dict[str, float] = {}
        self.complete = asyncio.Event()
        self._pods = pods

    def changed(self, batch: Iterable[Upserted[Pod] | Deleted]) -> None:
        """Note new bindings."""
        now = time.monotonic()
        for change in batch:
            if isinstance(change, Upserted) and change.value.node:
                self.seen.setdefault(change.key, now)
        if len(self.seen) >= self._pods:
            self.complete.set()

    def synced(self, resource: str) -> None:
        """Nothing to do."""

    def failed(self, resource: str, error: ApiError, retry_in_s: float) -> None:  # noqa: ARG002 - the protocol
        """Say so: it may spoil the figures."""
        say(f"  watch of {resource}: {error}")


async def _stamps(bed: Bed, pods: int) -> list[float]:
    """When each pod was seen bound, by the product's own watch."""
    listener = _Stamps(pods)
    async with KubeClient(await load_access(str(bed.kubeconfig))) as client:
        follower = asyncio.create_task(Follower(client, PODS, listener).run())
        try:
            await asyncio.wait_for(listener.complete.wait(), 900)
        finally:
            follower.cancel()
    return list(listener.seen.values())


async def _verbs(spec: ExtenderSpec) -> dict[str, tuple[float, float]]:
    """Calls and seconds per verb since the extender was started, of the verbs that were asked for."""
    families = text_string_to_metric_families(await read_text(f"{spec.ops_url}/metrics"))
    samples = {(s.name, s.labels.get("verb")): s.value for f in families for s in f.samples}
    name = "gpushare_extender_request_duration_seconds"
    verbs = [verb for verb in ("filter", "prioritize", "bind") if (f"{name}_count", verb) in samples]
    return {verb: (samples[f"{name}_count", verb], samples[f"{name}_sum", verb]) for verb in verbs}


def _cpu_s(bed: Bed, process: str) -> float:
    return cpu_s(bed.process(process).pid)


async def _empty(bed: Bed) -> None:
    await bed.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false", timeout_s=180)

    async def none() -> bool:
        return not await bed.api.items("/api/v1/pods", limit="1")

    await until(none, "no pods", 180, 0.5)


if __name__ == "__main__":
    main()
    sys.exit(0)
