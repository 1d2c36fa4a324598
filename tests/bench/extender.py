"""``make bench-extender``: the cost of the extender, on a real control plane.

Two parts. *Large*: 5,000 nodes and 50,000 pods: time to ready after a cold start, resident memory,
and the latency of filter for 100, 1,000 and 5,000 names over one keep-alive connection, as the
scheduler's client makes it. *Throughput*: 1,000 nodes of 8 cards and 3,000 pods through the same
kube-scheduler without and with the extender, arms interleaved; the ratio is the figure that counts.
"""

import asyncio
import json
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product

import click
from prometheus_client.parser import text_string_to_metric_families

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.extender_resources import PODS
from gpushare.adapters.kube.watch import Follower
from gpushare.errors import ApiError
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.objects import Pod
from testbed import SLOW_START, Bed, Card, SchedulerSpec, SimNode, Testbed, gpu_pod, until
from testbed.control_plane.api import Object, read_text
from testbed.control_plane.nodes import node_object
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.bench.measuring import cpu_s, machine, quantile, rss_mib

SIZES = (100, 1000, 5000)
PLAIN, UNUSED = "plain", "unused extender"
_CALLS = {100: 2000, 1000: 1000, 5000: 400}
_WARM_UP = 50


@click.command()
@click.option("--nodes", default=5000, show_default=True, help="Nodes of the large cluster.")
@click.option("--pods", default=50_000, show_default=True, help="Pods of the large cluster.")
@click.option("--rounds", default=3, show_default=True, help="Rounds of each throughput arm.")
@click.option("--shortlist", default=50, show_default=True, help="Nodes of the arm with a shortlist.")
@click.option("--arm", "wanted", multiple=True, help="Only arms with this in their name; may be repeated.")
@click.option("--skip-large", is_flag=True, help="Only the throughput part.")
@click.option("--skip-throughput", is_flag=True, help="Only the large cluster.")
def main(
    nodes: int,
    pods: int,
    rounds: int,
    shortlist: int,
    wanted: tuple[str, ...],
    *,
    skip_large: bool,
    skip_throughput: bool,
) -> None:
    """Print the results as Markdown."""
    click.echo(machine())
    if not skip_large:
        asyncio.run(large(nodes, pods))
    if not skip_throughput:
        asyncio.run(throughput(rounds, shortlist, wanted))


async def large(nodes: int, pods: int) -> None:
    """Cold start, memory and filter latency."""
    async with Testbed(scheduler=SchedulerSpec(None), kwok=False) as bed:
        await grant(bed)
        _say(f"creating {nodes} nodes and {pods} pods")
        await bed.api.create_many(("/api/v1/nodes", node_object(_node(i))) for i in range(nodes))
        await _fill(bed, nodes, pods)
        # No kubelet keeps these nodes alive: the controllers would evict all pods during the measurement.
        await bed.stop("kube-controller-manager")
        spec = ExtenderSpec()
        began = time.monotonic()
        process = await start_extender(bed, spec)
        ready_s = time.monotonic() - began
        await until(partial(_leads, spec), "the extender to lead", 120)
        leads_s = time.monotonic() - began
        click.echo("\n| nodes | pods | ready after | binds after | resident |\n|---|---|---|---|---|")
        rss = rss_mib(process.pid)
        click.echo(f"| {nodes} | {pods} | {ready_s:.1f} s | {leads_s:.1f} s | {rss:.0f} MiB |")
        click.echo("\n| verb | names | p50 | p99 | p99/p50 | processor time |\n|---|---|---|---|---|---|")
        for size in SIZES:
            if size <= nodes:
                await asyncio.to_thread(_filter_rows, spec, size, partial(_cpu_s, bed, spec.name))
        click.echo(f"\nresident after the calls: {rss_mib(process.pid):.0f} MiB")


async def _leads(spec: ExtenderSpec) -> bool:
    return "gpushare_extender_leader 1.0" in await read_text(f"{spec.ops_url}/metrics", timeout_s=10)


def _node(index: int) -> SimNode:
    return SimNode(f"node-{index:04}", [Card()] * 8, pods=500)


async def _fill(bed: Bed, nodes: int, pods: int) -> None:
    """Pods that are bound already, with the annotations of a bind: one card in ten is left free."""

    def bound(number: int) -> Object:
        card = number // nodes % 8
        pod = gpu_pod(f"p{number:05}", 10, nodeName=f"node-{number % nodes:04}")
        pod["metadata"]["annotations"] = {
            "ALIYUN_COM_GPU_MEM_IDX": str(card),
            "ALIYUN_COM_GPU_MEM_POD": "10",
            "ALIYUN_COM_GPU_MEM_DEV": "14",
            "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
            "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1700000000000000000",
            "scheduler.framework.gpushare.allocation": json.dumps({"0": {str(card): 10}}),
        }
        return pod

    gpu = min(pods, nodes * 7)
    await bed.create_pods((bound(i) for i in range(gpu)), concurrency=64)
    plain = (gpu_pod(f"q{i:05}", nodeName=f"node-{i % nodes:04}") for i in range(pods - gpu))
    await bed.create_pods(plain, concurrency=64)


def _filter_rows(spec: ExtenderSpec, size: int, spent_s: Callable[[], float]) -> None:
    """A pod that fits everywhere, and one that no node takes."""
    names = [f"node-{i:04}" for i in range(size)]
    for label, units in (("filter, all pass", 4), ("filter, all refused", 15)):
        before = spent_s()
        samples = _measure(
            spec.port, json.dumps({"Pod": gpu_pod("x", units), "NodeNames": names}).encode(), _CALLS[size]
        )
        cpu_ms = (spent_s() - before) / (_CALLS[size] + _WARM_UP) * 1e3
        p50, p99 = quantile(samples, 0.5), quantile(samples, 0.99)
        times = f"{p50 * 1e3:.2f} ms | {p99 * 1e3:.2f} ms | {p99 / p50:.1f} | {cpu_ms:.2f} ms"
        click.echo(f"| {label} | {size} | {times} |")


def _measure(port: int, body: bytes, calls: int) -> list[float]:
    """Round trips over one connection, in seconds."""
    head = (
        "POST /gpushare-scheduler/filter HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    samples = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(calls + _WARM_UP):
            began = time.perf_counter()
            connection.sendall(head + body)
            _read_answer(connection)
            if number >= _WARM_UP:
                samples.append(time.perf_counter() - began)
    return samples


def _read_answer(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 20)
    head, _, rest = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    parts, have = [rest], len(rest)
    while have < length:
        parts.append(connection.recv(1 << 20))
        have += len(parts[-1])
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"filter answered {head.decode()}")
    return b"".join(parts)


async def throughput(
    rounds: int, shortlist: int, wanted: tuple[str, ...] = (), *, nodes: int = 1000, pods: int = 3000
) -> None:
    """Pods per second without and with the extender, on the same control plane and scheduler binary.

    The arm "unused extender" names one that wants other pods: kube-scheduler 1.35 and later switch off
    their batching of equal pods as soon as any extender is configured. Only the arm's extender runs.
    """
    whole, short = ExtenderSpec(), ExtenderSpec("shortlist", flags=[f"--shortlist={shortlist}"])
    other = component_config(whole.url) | {"managedResources": [{"name": "example.com/other"}]}
    arms = {
        PLAIN: (SchedulerSpec(extenders=[]), None),
        "extender": (SchedulerSpec(extenders=[component_config(whole.url)]), whole),
        f"extender, shortlist of {shortlist}": (
            SchedulerSpec(extenders=[component_config(short.url)]),
            short,
        ),
        UNUSED: (SchedulerSpec(extenders=[other]), None),
    }
    chosen = {name: arm for name, arm in arms.items() if not wanted or any(each in name for each in wanted)}
    if not chosen:
        raise click.BadParameter(f"no arm is called so: there are {'; '.join(arms)}", param_hint="--arm")
    results: dict[str, list[_Round]] = {name: [] for name in chosen}
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        await grant(bed)
        for spec in (whole, short):
            await (await start_extender(bed, spec)).stop()
        _say(f"creating {nodes} nodes")
        await bed.add_nodes([_node(i) for i in range(nodes)])
        for number in range(rounds):
            for name, (scheduler, extender) in chosen.items():
                results[name].append(await _round(bed, scheduler, extender, pods))
                _say(f"round {number + 1}, {name}: {results[name][-1].rate:.1f} pods/s")
    _report(results)


def _report(results: dict[str, list["_Round"]]) -> None:
    click.echo("\n| arm | pods/s, each round | median | processor time per pod |\n|---|---|---|---|")
    for name, rounds in results.items():
        rates = [each.rate for each in rounds]
        shares = ", ".join(f"{process} {ms:.1f} ms" for process, ms in rounds[-1].cpu_ms.items())
        each = ", ".join(f"{rate:.1f}" for rate in rates)
        click.echo(f"| {name} | {each} | {statistics.median(rates):.1f} | {shares} |")
    click.echo()
    bases = [base for base in (PLAIN, UNUSED) if base in results]
    for name, base in product(results, bases):
        if name not in bases:
            ratios = [e.rate / p.rate for e, p in zip(results[name], results[base], strict=True)]
            each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            click.echo(f"ratio {name} / {base}, each round: {each}; median {statistics.median(ratios):.2f}")
    click.echo("\n| arm | verb | calls | mean |\n|---|---|---|---|")
    for name, rounds in results.items():
        for verb, (calls, seconds) in rounds[-1].verbs.items():
            click.echo(f"| {name} | {verb} | {calls:.0f} | {seconds / calls * 1e3:.2f} ms |")


@dataclass(frozen=True)
class _Round:
    """One arm's run: pods per second, milliseconds of processor time per pod and process.

    ``verbs``: calls and seconds of each verb, as the extender measured them itself.
    """

    rate: float
    cpu_ms: dict[str, float]
    verbs: dict[str, tuple[float, float]]


_PROCESSES = ("kube-apiserver", "etcd", "kwok")


async def _round(bed: Bed, scheduler: SchedulerSpec, extender: ExtenderSpec | None, pods: int) -> _Round:
    """Pods are created while no scheduler runs; the time is from the first to the last binding.

    kwok leaves the bound pods alone: on real nodes that work is not done on the control plane's
    processors, and here it would fall into the time of the slower arm only.
    """
    idle = {SLOW_START: "true"}
    await bed.create_pods(
        (gpu_pod(f"p{i:04}", 1 + i % 4, annotations=idle) for i in range(pods)), concurrency=64
    )
    if extender:
        await bed.process(extender.name).start()
        await until(partial(_leads, extender), "the extender to lead")
    names = (*_PROCESSES, *([extender.name] if extender else []))
    before = {name: _cpu_s(bed, name) for name in names}
    await bed.restart_scheduler(scheduler)
    stamps = await _stamps(bed, pods)
    names = ("kube-scheduler", *names)
    cpu_ms = {name: (_cpu_s(bed, name) - before.get(name, 0)) / pods * 1e3 for name in names}
    verbs = await _verbs(extender) if extender else {}
    await bed.restart_scheduler(SchedulerSpec(None))
    if extender:
        await bed.process(extender.name).stop()
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
        _say(f"  watch of {resource}: {error}")


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


def _say(text: str) -> None:
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
    sys.exit(0)
