"""``make bench PART=replay``: decisions of the extender with binpack and with replay, on a real API server.

A trace of Alibaba's cluster-trace-gpu-v2023 (``--folder``) has the nodes, repeated up to each size, and the
pods. Some pods are bound before the extender starts. Then pods are decided one after the other, as
kube-scheduler does it: filter with the nodes that have the CPU and memory, prioritize with those that it
returns, and bind to the best. Pods without GPUs go to any node. The arms alternate, and each begins with the
same pods. What belongs here: the replacement of kube-scheduler, and the table.
"""

import asyncio
import json
import random
import socket
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import click

from gpushare.contract import EXTENDER_PREFIX, LABEL_CARDS_PER_POD, RESOURCE_MEM
from gpushare.scheduling.placement.replay.needs import Need, Room, after, fits, fullest
from gpushare.simulation.trace_csv import nodes_of, pods_of
from gpushare.simulation.workload import GPU, NodeSpec
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed, until
from testbed.control_plane.api import Object, read_text
from testbed.control_plane.nodes import node_object
from testbed.daemons.extender import ExtenderSpec, grant, start_extender
from tests.bench.extender_busy import longest_delay, loop_delays
from tests.bench.large_cluster import say, until_leads
from tests.bench.measuring import cpu_s, ms, quantile, rss_mib
from tests.bench.replay_processor import LEARN_EVERY, InProcess, Times, report
from tests.bench.traces import NODES, PODS
from tests.support.machine import machine

_ARMS: Final = ("binpack", "replay")
_TRIED: Final = 50
"""Nodes that are tried for a pod of the first ones, of which it gets the one with the least CPU left."""
_CALLS: Final = ("filter", "prioritize")
_PATH: Final = "/api/v1/namespaces/default/pods"


@click.command()
@click.option("--folder", type=click.Path(path_type=Path, exists=True, file_okay=False), required=True)
@click.option("--trace", default="default", show_default=True)
@click.option("--size", "sizes", multiple=True, type=int, default=(1213, 5000), show_default=True)
@click.option("--filled", default=0.6, show_default=True, help="Part of all GPUs that is taken at first.")
@click.option("--pods", default=1000, show_default=True, help="Pods that are decided in each arm.")
@click.option("--rounds", default=2, show_default=True)
@click.option("--processor", is_flag=True, help="Only the processor time of decisions in one process.")
def main(
    folder: Path, trace: str, sizes: Sequence[int], filled: float, pods: int, rounds: int, *, processor: bool
) -> None:
    """Print the results as Markdown."""
    click.echo(f"{machine()}\n")
    if processor:
        click.echo(
            "| nodes | policy | what | mean | p50 | p90 | p99 | longest |\n|---|---|---|---|---|---|---|---|"
        )
        for size in sizes:
            asyncio.run(_processor(_Trace.read(folder, trace, size), filled, pods))
        return
    click.echo(
        "| nodes | policy | call | p50 | p99 | longest | processor time of a pod | resident | loop | late |"
    )
    click.echo("|---|---|---|---|---|---|---|---|---|---|")
    for size in sizes:
        asyncio.run(_measure(_Trace.read(folder, trace, size), filled, pods, rounds))


@dataclass(frozen=True)
class _Trace:
    """Nodes with names, and the needs of pods in random order, again and again."""

    nodes: Mapping[str, NodeSpec]
    needs: Iterator[Need]

    @classmethod
    def read(cls, folder: Path, trace: str, size: int) -> "_Trace":
        """The nodes are repeated up to this size."""
        specs = nodes_of((folder / NODES).read_text())
        shapes = pods_of((folder / f"{PODS}{trace}.csv").read_text(), frozenset(spec.model for spec in specs))
        needs = [Need(each.cpu, each.memory, each.gpus, each.milli) for each in shapes]
        random.Random(1).shuffle(needs)
        named = {f"node-{number:04}": spec for number, spec in enumerate(islice(cycle(specs), size))}
        return cls(named, cycle(needs))


@dataclass
class _Round:
    """What one arm took in one round."""

    calls: Mapping[str, list[float]] = field(default_factory=lambda: {call: [] for call in _CALLS})
    cpu_s: float = 0.0
    rss: float = 0.0
    loop: str = ""
    late: float = 0.0


async def _processor(trace: _Trace, filled: float, pods: int) -> None:
    rooms = _rooms(trace)
    bound = list(_filled(rooms, trace, filled))
    wanted = list(islice(trace.needs, pods))
    arms = {arm: Times() for arm in _ARMS}
    for arm, times in arms.items():
        nodes = [_node(*each) for each in trace.nodes.items()]
        await _decide(InProcess(arm, nodes, bound), times, dict(rooms), wanted)
    report(len(rooms), arms)


async def _decide(extender: InProcess, times: Times, rooms: dict[str, Room], wanted: Sequence[Need]) -> None:
    await extender.learn()
    for number, need in enumerate(wanted):
        pod = _pod(f"pod-{number:05}", need)
        able = _able(rooms, need)
        node = able[number % len(able)] if not need.gpus else None
        if node is None:
            extender.show(pod)
            passed = (await times.of("filter", extender.answered("filter", pod, able)))["NodeNames"]
            if not passed:
                continue
            node = best_of(await times.of("prioritize", extender.answered("prioritize", pod, passed)), passed)
            extender.bind(pod["metadata"]["uid"], node)
        else:
            extender.show(_pod(f"pod-{number:05}", need, nodeName=node))
        rooms[node] = _with(rooms[node], need)
        if number % LEARN_EVERY == 0:
            await times.of("learning", extender.learn())


async def _measure(trace: _Trace, filled: float, pods: int, rounds: int) -> None:
    results: dict[str, list[_Round]] = {arm: [] for arm in _ARMS}
    async with Testbed(scheduler=SchedulerSpec(None), kwok=False) as bed:
        await grant(bed)
        rooms = _rooms(trace)
        bound = list(_filled(rooms, trace, filled))
        say(f"creating {len(rooms)} nodes and {len(bound)} pods")
        await bed.api.create_many(("/api/v1/nodes", _node(*each)) for each in trace.nodes.items())
        await bed.create_pods(bound, concurrency=64)
        await bed.stop("kube-controller-manager")
        # Timestamps have whole seconds, and these pods have no seals: they must be older than the key.
        await asyncio.sleep(1)
        wanted = list(islice(trace.needs, pods))
        for number in range(rounds):
            for arm in _ARMS if number % 2 == 0 else reversed(_ARMS):
                results[arm].append(await _round(bed, arm, dict(rooms), wanted))
                say(f"round {number + 1}, {len(rooms)} nodes, {arm}")
    for arm, found in results.items():
        _report(len(rooms), arm, pods, found)


def _rooms(trace: _Trace) -> dict[str, Room]:
    return {name: Room(s.cpu, s.memory, 0, GPU, (GPU,) * s.gpus) for name, s in trace.nodes.items()}


def _able(rooms: Mapping[str, Room], need: Need) -> list[str]:
    """The nodes with the CPU and memory, in the order of kube-scheduler, which is none."""
    return [name for name, room in rooms.items() if room.cpu >= need.cpu and room.memory >= need.memory]


def _with(room: Room, need: Need) -> Room:
    """The node with the pod; only CPU and memory are followed here."""
    return room._replace(cpu=room.cpu - need.cpu, memory=room.memory - need.memory)


def best_of(scores: Sequence[Mapping[str, Any]], passed: Sequence[str]) -> str:
    """The node with the highest score; nodes that are not listed have the lowest."""
    found: str = max(scores, key=lambda each: each["Score"], default={"Host": passed[0]})["Host"]
    return found


def _filled(rooms: dict[str, Room], trace: _Trace, part: float) -> Iterator[Object]:
    """Pods with annotations of binds, and the rooms after them."""
    rng, names = random.Random(2), list(rooms)
    left = part * sum(sum(room.free) for room in rooms.values())
    for number, need in enumerate(trace.needs):
        if left <= 0:
            return
        some = [name for name in rng.sample(names, min(_TRIED, len(names))) if fits(rooms[name], need)]
        if not some:
            continue
        name = min(some, key=lambda each: rooms[each].cpu)
        gpus = fullest(rooms[name], need)
        rooms[name] = after(rooms[name], need, gpus)
        left -= need.gpus * need.units
        yield _bound(f"first-{number:05}", need, name, gpus)


def _node(name: str, spec: NodeSpec) -> Object:
    cards = [SimGpu(model="Tesla V100-SXM2-32GB", units=GPU, mib=32_000)] * spec.gpus
    return node_object(SimNode(name, cards, cpu=f"{spec.cpu}m", memory=f"{spec.memory}Mi", pods=500))


def _pod(name: str, need: Need, **spec: Any) -> Object:
    limits = {"cpu": f"{need.cpu}m", "memory": f"{need.memory}Mi"}
    labels = {}
    if need.gpus:
        limits[RESOURCE_MEM] = str(need.gpus * need.units)
    if need.gpus > 1:
        labels[LABEL_CARDS_PER_POD] = str(need.gpus)
    container = {"name": "main", "image": "none", "resources": {"limits": limits, "requests": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels, "annotations": {}},
        "spec": {"containers": [container], "schedulerName": "bench", **spec},
    }


def _bound(name: str, need: Need, node: str, gpus: Sequence[int]) -> Object:
    pod = _pod(name, need, nodeName=node)
    if gpus:
        pod["metadata"]["annotations"] = {
            "ALIYUN_COM_GPU_MEM_IDX": ",".join(map(str, gpus)),
            "ALIYUN_COM_GPU_MEM_POD": str(need.gpus * need.units),
            "ALIYUN_COM_GPU_MEM_DEV": str(GPU),
            "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
            "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1700000000000000000",
            "scheduler.framework.gpushare.allocation": json.dumps({"0": {str(i): need.units for i in gpus}}),
        }
    return pod


async def _round(bed: Bed, arm: str, rooms: dict[str, Room], wanted: Sequence[Need]) -> _Round:
    spec = ExtenderSpec(flags=[f"--placement={arm}"])
    process = await start_extender(bed, spec)
    await until_leads(spec)
    before, began_s, result = loop_delays(await _metrics(spec)), cpu_s(process.pid), _Round()
    client = _Client(spec.port, result)
    names = [f"pod-{number:05}" for number in range(len(wanted))]
    for name, need in zip(names, wanted, strict=True):
        await _place(bed, client, rooms, name, need)
    page = await _metrics(spec)
    result.cpu_s, result.rss = cpu_s(process.pid) - began_s, rss_mib(process.pid)
    result.loop, result.late = longest_delay(before, loop_delays(page)), _late(page)
    for name in names:
        await bed.api.delete(f"{_PATH}/{name}", gracePeriodSeconds="0")
    await process.stop()
    await until(partial(_is_empty, bed), "no pods of this round", 60)
    return result


async def _is_empty(bed: Bed) -> bool:
    return not any(each["metadata"]["name"].startswith("pod-") for each in await bed.api.items(_PATH))


async def _metrics(spec: ExtenderSpec) -> str:
    return await read_text(f"{spec.ops_url}/metrics", timeout_s=30)


def _late(page: str) -> float:
    lines = (line for line in page.splitlines() if line.startswith("gpushare_extender_replay_late_total "))
    return float(next(lines, "0 0").split()[1])


async def _place(bed: Bed, client: "_Client", rooms: dict[str, Room], name: str, need: Need) -> None:
    """Create a pod, and bind it if it fits."""
    able = _able(rooms, need)
    if not need.gpus:
        node = able[len(name) % len(able)]
        await bed.api.create(_PATH, _pod(name, need, nodeName=node))
    else:
        pod = await bed.api.create(_PATH, _pod(name, need))
        # kube-scheduler's watch takes as long as the extender's.
        await asyncio.sleep(0.002)
        found = client.decided(pod, able)
        if found is None:
            return
        node = found
        client.bind(pod, node)
    rooms[node] = _with(rooms[node], need)


class _Client:
    """Calls the extender as kube-scheduler does, over one connection, and measures filter and prioritize."""

    def __init__(self, port: int, result: _Round) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=30)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._result = result

    def decided(self, pod: Object, names: Sequence[str]) -> str | None:
        """The node for a pod; None if none passes."""
        passed = json.loads(self._called("filter", pod, names))["NodeNames"]
        if not passed:
            return None
        return best_of(json.loads(self._called("prioritize", pod, passed)), passed)

    def _called(self, verb: str, pod: Object, names: Sequence[str]) -> bytes:
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode()
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = self._posted(verb, body)
        self._result.calls[verb].append(loop.time() - began)
        return answer

    def bind(self, pod: Object, node: str) -> None:
        """Bind the pod, or fail."""
        meta = pod["metadata"]
        request = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": node}
        answer = json.loads(self._posted("bind", json.dumps(request).encode()))
        if answer["Error"]:
            raise click.ClickException(answer["Error"])

    def _posted(self, verb: str, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", f"{EXTENDER_PREFIX}/{verb}", body, headers)
        return self._connection.getresponse().read()


def _report(nodes: int, arm: str, pods: int, rounds: Sequence[_Round]) -> None:
    cpu = statistics.median(each.cpu_s for each in rounds) / pods
    loop = max((each.loop for each in rounds), key=lambda text: float(text.strip("<= ms")))
    both = [sum(pair) for each in rounds for pair in zip(*each.calls.values(), strict=False)]
    rows = {call: [s for each in rounds for s in each.calls[call]] for call in _CALLS} | {"both": both}
    for call, seconds in rows.items():
        times = [ms(quantile(seconds, part)) for part in (0.5, 0.99)] + [ms(max(seconds))]
        rest = [ms(cpu), f"{max(each.rss for each in rounds):.0f} MiB", loop]
        late = f"{sum(each.late for each in rounds):.0f} of {len(rows['prioritize'])}"
        shown = [*times, *(rest if call == "both" else [""] * 3), late if call == "both" else ""]
        click.echo(f"| {nodes} | {arm} | {call} | {' | '.join(shown)} |")
    click.echo(f"| {nodes} | {arm} | both, mean | {ms(statistics.mean(both))} | | | | | | |")


if __name__ == "__main__":
    main()
