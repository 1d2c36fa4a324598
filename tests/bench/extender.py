"""``make bench-extender``: what the extender costs, on a real control plane.

Two parts. *Large*: 5,000 nodes and 50,000 pods: time to ready after a cold start, resident memory,
and the latency of filter for 100, 1,000 and 5,000 names over one keep-alive connection, as the
scheduler's client makes it. *Throughput*: 1,000 nodes of 8 cards and 3,000 pods through the same
kube-scheduler without and with the extender, arms interleaved; the ratio is the figure that counts.
"""

import asyncio
import json
import os
import platform
import socket
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click

from testbed import Bed, Card, SchedulerSpec, SimNode, Testbed, gpu_pod, until
from testbed.api import Object
from testbed.extender import ExtenderSpec, component_config, grant, start_extender
from testbed.nodes import node_object

SIZES = (100, 1000, 5000)
_CALLS = {100: 2000, 1000: 1000, 5000: 400}


@click.command()
@click.option("--nodes", default=5000, show_default=True, help="Nodes of the large cluster.")
@click.option("--pods", default=50_000, show_default=True, help="Pods of the large cluster.")
@click.option("--rounds", default=3, show_default=True, help="Rounds of both throughput arms.")
@click.option("--skip-large", is_flag=True, help="Only the throughput part.")
@click.option("--skip-throughput", is_flag=True, help="Only the large cluster.")
def main(nodes: int, pods: int, rounds: int, *, skip_large: bool, skip_throughput: bool) -> None:
    """Print the results as Markdown."""
    click.echo(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()} {platform.release()}"
    )
    if not skip_large:
        asyncio.run(large(nodes, pods))
    if not skip_throughput:
        asyncio.run(throughput(rounds))


async def large(nodes: int, pods: int) -> None:
    """Cold start, memory and filter latency."""
    async with Testbed(scheduler=SchedulerSpec(None), kwok=False) as bed:
        await grant(bed)
        _say(f"creating {nodes} nodes and {pods} pods")
        await bed.api.create_many(("/api/v1/nodes", node_object(_node(i))) for i in range(nodes))
        await _fill(bed, nodes, pods)
        spec = ExtenderSpec()
        began = time.monotonic()
        process = await start_extender(bed, spec)
        ready_s = time.monotonic() - began
        click.echo("\n| nodes | pods | ready after | resident |\n|---|---|---|---|")
        click.echo(f"| {nodes} | {pods} | {ready_s:.1f} s | {_rss_mib(process.pid):.0f} MiB |")
        click.echo("\n| verb | names | p50 | p99 | p99/p50 |\n|---|---|---|---|---|")
        for size in SIZES:
            if size <= nodes:
                await asyncio.to_thread(_filter_rows, spec, size)
        click.echo(f"\nresident after the calls: {_rss_mib(process.pid):.0f} MiB")


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


def _filter_rows(spec: ExtenderSpec, size: int) -> None:
    """A pod that fits everywhere, and one that half of the nodes refuse."""
    names = [f"node-{i:04}" for i in range(size)]
    for label, units in (("filter, all pass", 4), ("filter, all refused", 15)):
        samples = _measure(
            spec.port, json.dumps({"Pod": gpu_pod("x", units), "NodeNames": names}).encode(), _CALLS[size]
        )
        p50, p99 = _quantile(samples, 0.5), _quantile(samples, 0.99)
        click.echo(f"| {label} | {size} | {p50 * 1e3:.2f} ms | {p99 * 1e3:.2f} ms | {p99 / p50:.1f} |")


def _measure(port: int, body: bytes, calls: int) -> list[float]:
    """Round trips over one connection, in seconds."""
    head = (
        "POST /gpushare-scheduler/filter HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    samples = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(calls + 50):
            began = time.perf_counter()
            connection.sendall(head + body)
            _read_answer(connection)
            if number >= 50:
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


async def throughput(rounds: int, *, nodes: int = 1000, pods: int = 3000) -> None:
    """Pods per second without and with the extender, on the same control plane and scheduler binary."""
    spec = ExtenderSpec()
    arms = {
        "plain": SchedulerSpec(extenders=[]),
        "extender": SchedulerSpec(extenders=[component_config(spec.url)]),
    }
    rates: dict[str, list[float]] = {name: [] for name in arms}
    async with Testbed(scheduler=SchedulerSpec(None)) as bed:
        await grant(bed)
        await start_extender(bed, spec)
        _say(f"creating {nodes} nodes")
        await bed.add_nodes([_node(i) for i in range(nodes)])
        for number in range(rounds):
            for name, scheduler in arms.items():
                rates[name].append(await _round(bed, scheduler, pods))
                _say(f"round {number + 1}, {name}: {rates[name][-1]:.1f} pods/s")
    click.echo("\n| arm | pods/s, each round | median |\n|---|---|---|")
    for name, values in rates.items():
        click.echo(f"| {name} | {', '.join(f'{v:.1f}' for v in values)} | {statistics.median(values):.1f} |")
    ratios = [e / p for e, p in zip(rates["extender"], rates["plain"], strict=True)]
    click.echo(
        f"\nratio extender / plain, round by round: {', '.join(f'{r:.2f}' for r in ratios)}; "
        f"median {statistics.median(ratios):.2f}"
    )


async def _round(bed: Bed, scheduler: SchedulerSpec, pods: int) -> float:
    """Pods are created while no scheduler runs; the time is from the first to the last binding."""
    await bed.restart_scheduler(SchedulerSpec(None))
    await bed.create_pods((gpu_pod(f"p{i:04}", 1 + i % 4) for i in range(pods)), concurrency=64)
    began = time.monotonic()
    await bed.restart_scheduler(scheduler)
    stamps = await _stamps(bed, pods)
    _say(f"  {time.monotonic() - began:.1f} s with the scheduler's start")
    await bed.restart_scheduler(SchedulerSpec(None))
    await _empty(bed)
    return pods / max(1.0, max(stamps) - min(stamps))


async def _stamps(bed: Bed, pods: int) -> list[float]:
    """When each pod was seen bound, from a watch."""
    seen: dict[str, float] = {}
    listed = await bed.api.get("/api/v1/pods", limit="1")
    query = f"/api/v1/pods?watch=1&resourceVersion={listed['metadata']['resourceVersion']}"
    for pod in (await bed.api.get("/api/v1/pods"))["items"]:
        if pod["spec"].get("nodeName"):
            seen[pod["metadata"]["name"]] = time.monotonic()
    async with bed.api._open().get(bed.api.url + query, timeout=None) as reply:
        rest = b""
        async for chunk in reply.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                pod = json.loads(line)["object"]
                if pod["spec"].get("nodeName"):
                    seen.setdefault(pod["metadata"]["name"], time.monotonic())
            if len(seen) >= pods:
                return list(seen.values())
    raise SystemExit("the watch ended early")


async def _empty(bed: Bed) -> None:
    await bed.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false", timeout_s=180)

    async def none() -> bool:
        return not await bed.api.items("/api/v1/pods", limit="1")

    await until(none, "no pods", 180, 0.5)


def _quantile(samples: Iterable[float], part: float) -> float:
    ranked = sorted(samples)
    return ranked[min(len(ranked) - 1, int(part * len(ranked)))]


def _rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _say(text: str) -> None:
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
    sys.exit(0)
