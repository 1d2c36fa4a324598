"""Filter while the extender is busy with something else: the arms of the benchmark, and their results.

Each arm runs one other load and, in a separate process, a client that calls filter for all nodes at a
fixed rate. The arms alternate their order, after a warm-up round.
"""

import asyncio
import json
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Final

import click
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from gpushare.contract import EXTENDER_NAME
from gpushare.monitoring.catalogue import EXTENDER_LOOP_DELAY
from testbed import Bed, gpu_pod
from testbed.control_plane.api import Object, read_text
from testbed.daemons.extender import ACCOUNT, LEASES, ExtenderSpec, start_extender
from tests.bench.large_cluster import node_name, say, until_leads, victims_on
from tests.bench.measuring import quantile
from tests.support.fakes.fault_proxy import FaultProxy, fault_proxy, status_answer

IDLE: Final = "idle"
_PENDING: Final = 500
_CANDIDATES: Final = 500
_WAITING_UNITS: Final = 8
"""More than any GPU has free, and less than each node has: kube-scheduler alone would place such a pod."""
_CALL_EVERY_S: Final = 0.02
_POLL_EVERY_S: Final = 1.0
_UPDATES_PER_S: Final = 20
_WARM_UP_PART: Final = 0.2


@dataclass(frozen=True)
class Arm:
    """The result of one arm in one round: round trips in seconds, and what happened meanwhile.

    ``loop_delay``: the longest delay of the event loop. ``renewals_s``: the longest time between two
    renewals of the Lease.
    """

    round_trips: list[float]
    loop_delay: str
    renewals_s: float


@dataclass
class Target:
    """The extender that is measured, and what its loads need."""

    bed: Bed
    spec: ExtenderSpec
    proxy: FaultProxy
    nodes: int
    uids: Mapping[str, str]
    resumed: asyncio.Event = field(default_factory=asyncio.Event)
    too_old: bool = False

    async def call(self, verb: str, body: Object) -> None:
        """One call of the scheduler."""
        await read_text(f"{self.spec.url}/{verb}", post=json.dumps(body), timeout_s=60)

    async def scrape(self) -> str:
        """The page of metrics."""
        return await read_text(f"{self.spec.ops_url}/metrics", timeout_s=60)

    async def end_watch(self, request: web.Request) -> web.StreamResponse | None:
        """A fault of the proxy: the next watch of pods is too old."""
        if not (request.path == "/api/v1/pods" and "watch" in request.query):
            return None
        if not self.too_old:
            self.resumed.set()
            return None
        self.too_old = False
        return status_answer(410, "Expired", "too old resource version")


Load = Callable[[Target], Awaitable[None]]


async def _scrapes(target: Target) -> None:
    while True:
        await target.scrape()
        await asyncio.sleep(_POLL_EVERY_S)


async def _inspections(target: Target) -> None:
    while True:
        await read_text(f"{target.spec.url}/inspect", timeout_s=60)
        await asyncio.sleep(_POLL_EVERY_S)


async def _retries(target: Target) -> None:
    """The scheduler retries pending pods: it calls filter, then updates the condition of the pod."""
    names = [node_name(i) for i in range(target.nodes)]
    for turn in count():
        name = _pending_name(turn % _PENDING)
        pod = _pending(turn % _PENDING) | {"status": _unschedulable(turn)}
        pod["metadata"]["uid"] = target.uids[name]
        await target.call("filter", {"Pod": pod, "NodeNames": names})
        await target.bed.api.patch(f"{_PODS}/{name}/status", {"status": _unschedulable(turn)})
        await asyncio.sleep(1 / _UPDATES_PER_S)


async def _preemptions(target: Target) -> None:
    """A pod of high priority and all pods of each candidate node, again and again."""
    pod = gpu_pod("urgent", _WAITING_UNITS, priority=1000)
    pod["metadata"]["uid"] = "urgent"
    candidates = {
        node_name(i): {"Pods": [{"UID": target.uids[name]} for name in victims_on(i, target.nodes)[:2]]}
        for i in range(min(_CANDIDATES, target.nodes))
    }
    while True:
        await target.call("preempt", {"Pod": pod, "NodeNameToMetaVictims": candidates})
        await asyncio.sleep(_POLL_EVERY_S / 10)


async def _lists(target: Target) -> None:
    """The watch of pods is too old, so that all pods are listed, again and again."""
    while True:
        target.too_old = True
        target.resumed.clear()
        target.proxy.drop_streams()
        await target.resumed.wait()
        await asyncio.sleep(_POLL_EVERY_S)


async def _nothing(_: Target) -> None:
    await asyncio.Event().wait()


async def _everything(target: Target) -> None:
    async with asyncio.TaskGroup() as tasks:
        for load in (_scrapes, _inspections, _retries, _preemptions, _lists):
            tasks.create_task(_forever(load, target))


ARMS: Final[dict[str, Load]] = {
    IDLE: _nothing,
    "scrapes": _scrapes,
    "inspect": _inspections,
    "500 pending pods": _retries,
    "preemption": _preemptions,
    "list again": _lists,
    "all of these": _everything,
}


@dataclass(frozen=True)
class Busy:
    """How to measure: ``seconds`` of each arm; arms with one of the words in their names, and ``idle``."""

    rounds: int
    seconds: float
    words: Collection[str] = ()

    @property
    def arms(self) -> dict[str, Load]:
        """The chosen arms."""
        chosen = {name for name in ARMS if not self.words or any(word in name for word in self.words)}
        return {name: load for name, load in ARMS.items() if name in chosen | {IDLE}}


async def measure_busy(bed: Bed, nodes: int, busy: Busy) -> None:
    """Run the arms and print the table."""
    arms = busy.arms
    await bed.create_pods((_pending(number) for number in range(_PENDING)), concurrency=32)
    async with _target(bed, nodes) as target:
        body = bed.folder / "filter.json"
        names = [node_name(i) for i in range(nodes)]
        body.write_text(json.dumps({"Pod": gpu_pod("x", 2), "NodeNames": names}))
        results: dict[str, list[Arm]] = {name: [] for name in arms}
        for number in range(busy.rounds + 1):
            for name in list(arms) if number % 2 else reversed(arms):
                part = 1 if number else _WARM_UP_PART
                result = await _arm(target, arms[name], body, busy.seconds * part)
                say(f"round {number or 'of warm-up'}, {name}: {_row([result])}")
                if number:
                    results[name].append(result)
    _report(results)


@asynccontextmanager
async def _target(bed: Bed, nodes: int) -> AsyncIterator[Target]:
    """An extender that reaches the API server through a proxy, which can end its watches."""
    context = bed.credentials.context(ACCOUNT)
    async with fault_proxy(bed.api_url, context) as proxy:
        spec = ExtenderSpec("busy")
        uids = {p["metadata"]["name"]: p["metadata"]["uid"] for p in await _all_pods(bed)}
        target = Target(bed, spec, proxy, nodes, uids)
        proxy.faults.append(target.end_watch)
        await start_extender(bed, spec, proxy.kubeconfig(bed.folder))
        await until_leads(spec)
        yield target
        await bed.process(spec.name).stop()


async def _arm(target: Target, load: Load, body: Path, seconds: float) -> Arm:
    """Measure filter during a load."""
    log = target.bed.process(target.spec.name).command.log
    await target.scrape()  # the second one finds the lines of all nodes made
    delays, logged = loop_delays(await target.scrape()), log.stat().st_size
    renewals = _Renewals(target.bed)
    jobs = [asyncio.create_task(work) for work in (_forever(load, target), renewals.watch())]
    program = [sys.executable, "-m", "tests.bench.filter_client"]
    arguments = [str(target.spec.port), str(body), str(seconds), str(_CALL_EVERY_S)]
    client = await asyncio.create_subprocess_exec(*program, *arguments, stdout=asyncio.subprocess.PIPE)
    output, _ = await client.communicate()
    for job in jobs:
        if job.done():
            job.result()
        job.cancel()
    await asyncio.gather(*jobs, return_exceptions=True)
    if load in (_lists, _everything):
        await asyncio.wait_for(target.resumed.wait(), 120)
    longest = _logged_delay(log, logged) or longest_delay(delays, loop_delays(await target.scrape()))
    return Arm(json.loads(output), longest, renewals.longest_s)


async def _forever(load: Load, target: Target) -> None:
    await load(target)


class _Renewals:
    """The longest time between two renewals of the Lease."""

    def __init__(self, bed: Bed) -> None:
        self.longest_s = 0.0
        self._bed = bed

    async def watch(self) -> None:
        """Read the Lease until cancelled."""
        last: datetime | None = None
        while True:
            spec = (await self._bed.api.get(f"{LEASES}/{EXTENDER_NAME}"))["spec"]
            renewed = datetime.fromisoformat(spec["renewTime"])
            if last:
                self.longest_s = max(self.longest_s, (renewed - last).total_seconds())
            last = renewed
            await asyncio.sleep(_POLL_EVERY_S / 2)


def loop_delays(page: str) -> dict[float, float]:
    """The cumulative buckets of the delay of the event loop."""
    families = text_string_to_metric_families(page)
    name = f"{EXTENDER_LOOP_DELAY}_bucket"
    samples = [s for f in families for s in f.samples if s.name == name]
    return {float(s.labels["le"]): s.value for s in samples}


def longest_delay(before: Mapping[float, float], after: Mapping[float, float]) -> str:
    """The bucket of the longest delay between two readings."""
    grown = {bound: after[bound] - before[bound] for bound in after}
    most = min(bound for bound in grown if grown[bound] == grown[float("inf")])
    return f"<= {most * 1e3:.0f} ms"


def _logged_delay(log: Path, offset: int) -> str:
    """The longest delay that was logged since, with the processor time in it."""
    with log.open() as file:
        file.seek(offset)
        entries = [json.loads(line) for line in file if '"event_loop_delayed"' in line]
    if not entries:
        return ""
    seconds, processor_s = max((entry["seconds"], entry["processor_s"]) for entry in entries)
    return f"{seconds * 1e3:.0f} ms ({processor_s * 1e3:.0f} ms computing)"


def _report(results: Mapping[str, Sequence[Arm]]) -> None:
    click.echo("\n| load | filter p50 | p99 | p99 / p99 idle, each round | longest | event loop | Lease |")
    click.echo("|---|---|---|---|---|---|---|")
    for name, arms in results.items():
        ratios = [_p99(arm) / _p99(idle) for arm, idle in zip(arms, results[IDLE], strict=True)]
        each = ", ".join(f"{ratio:.1f}" for ratio in ratios)
        click.echo(f"| {name} | {_row(arms, each)} |")


def _row(arms: Sequence[Arm], ratios: str = "") -> str:
    """Medians of the rounds, and the worst of what happened in any of them."""
    p50 = statistics.median(quantile(arm.round_trips, 0.5) for arm in arms)
    p99 = statistics.median(map(_p99, arms))
    most = max(max(arm.round_trips) for arm in arms)
    delay = max((arm.loop_delay for arm in arms), key=lambda text: float(text.strip("<= ").split()[0]))
    renewals_s = max(arm.renewals_s for arm in arms)
    times = " | ".join(f"{seconds * 1e3:.2f} ms" for seconds in (p50, p99))
    return f"{times} | {ratios} | {most * 1e3:.0f} ms | {delay} | {renewals_s:.1f} s"


def _p99(arm: Arm) -> float:
    return quantile(arm.round_trips, 0.99)


_PODS: Final = "/api/v1/namespaces/default/pods"


async def _all_pods(bed: Bed) -> list[Object]:
    found, token = [], ""
    while True:
        page = await bed.api.get(_PODS, limit="1000", **({"continue": token} if token else {}))
        found += page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return found


def _pending_name(number: int) -> str:
    return f"w{number:03}"


def _pending(number: int) -> Object:
    return gpu_pod(_pending_name(number), _WAITING_UNITS)


def _unschedulable(turn: int) -> Object:
    """What the scheduler writes for a pod that fits nowhere."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/{turn} nodes are available",
    }
    return {"conditions": [condition]}
