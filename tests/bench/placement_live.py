"""``make bench-placement LIVE=1 FOLDER=<traces>``: a trace through kube-scheduler and the extender.

Some nodes of the trace become Node objects without kubelets, and its pods arrive one after the other, as in
the simulation: nobody leaves. The table has the allocated GPUs beside those of the simulation with the same
nodes and the same pods in the same order; its runs differ in who wins a tie. What belongs here: the
objects of the API, and the comparison.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from statistics import mean, stdev
from typing import Any, Final

import click

from gpushare.cli.simulate.collect import Runs, run_all, workload_of
from gpushare.contract import LABEL_CARDS_PER_POD, LABEL_PLACEMENT
from gpushare.simulation.product import REPLAY
from gpushare.simulation.tuning import tuned
from gpushare.simulation.workload import NodeSpec, Shape, Workload
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons.extender import ExtenderSpec, component_config, grant, start_extender
from tests.bench.large_cluster import say, until_leads
from tests.bench.traces import NODES, PODS
from tests.support.machine import machine

_LOAD: Final = 1.3
_MODEL: Final = "trace/model"
"""Label of a node: its GPU model in the trace."""
_PODS: Final = "/api/v1/namespaces/default/pods"
_TIES: Final = 10
"""Runs of the simulation."""
_DEADLINE_S: Final = 1800


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--trace", default="default", show_default=True, help="The list of pods.")
@click.option("--nodes", default=200, show_default=True, help="Nodes, chosen from the trace by seed.")
@click.option("--policy", default="binpack", show_default=True, help="Policy of the cluster.")
@click.option("--weight", type=int, help="Weight of the extender (default: the product's).")
@click.option("--seed", default=0, show_default=True, help="Choice of the nodes, and order of the pods.")
def main(folder: Path, trace: str, nodes: int, policy: str, weight: int | None, seed: int) -> None:
    """Print the results as Markdown."""
    workload = sample(workload_of(folder / NODES, folder / f"{PODS}{trace}.csv"), nodes, Random(seed))
    click.echo(f"{machine()}\n")
    simulated = simulate(workload, policy)
    began = time.monotonic()
    live = asyncio.run(place(workload, policy, weight))
    say(f"placed in {time.monotonic() - began:.0f} s")
    click.echo("| policy | nodes | GPUs | pods | kube-scheduler and extender | simulation | its deviation |")
    click.echo("|---|---|---|---|---|---|---|")
    numbers = (len(workload.nodes), workload.capacity // 1000, len(arrivals(workload)))
    results = (live, mean(simulated), stdev(simulated))
    cells = [policy, *(f"{each:,}" for each in numbers), *(f"{each:.2f}" for each in results)]
    click.echo(f"| {' | '.join(cells)} |")


def sample(workload: Workload, count: int, rng: Random) -> Workload:
    """So many nodes of the workload; its pods in another order, from which each run starts."""
    pods = list(workload.pods)
    rng.shuffle(pods)
    return Workload(tuple(rng.sample(workload.nodes, count)), tuple(pods))


def arrivals(workload: Workload) -> list[Shape]:
    """The pods of the first seed, as the simulation has them."""
    return tuned(workload, _LOAD, Random(0))


def simulate(workload: Workload, policy: str) -> list[float]:
    """Allocated GPUs in percent, with kube-scheduler's own decisions as in the cluster.

    replay places pods without GPUs too.
    """
    runs = Runs([policy], 1, _LOAD, scheduler=policy != REPLAY)
    found = []
    for number in range(_TIES):
        nodes = list(workload.nodes)
        Random(number).shuffle(nodes)
        (outcome,) = run_all(Workload(tuple(nodes), workload.pods), runs)[policy]
        found.append(outcome.allocated)
    return found


async def place(workload: Workload, policy: str, weight: int | None = None) -> float:
    """Allocated GPUs in percent, after kube-scheduler has tried all pods."""
    extender = ExtenderSpec(flags=[f"--placement={policy}"] if policy == REPLAY else [])
    async with Testbed(scheduler=SchedulerSpec(extenders=entries(extender, policy, weight))) as bed:
        await grant(bed)
        await bed.add_nodes(sim_node(spec, policy) for spec in workload.nodes)
        await start_extender(bed, extender)
        await until_leads(extender)
        shapes = arrivals(workload)
        # One at a time: the scheduler's queue is in the order of their arrival.
        await bed.create_pods(map(pod_object, range(len(shapes)), shapes), concurrency=1)
        bound = await placed(bed, len(shapes))
        return 100 * sum(shapes[number].units for number in bound) / workload.capacity


def entries(extender: ExtenderSpec, policy: str, weight: int | None) -> list[dict[str, Any]]:
    """The extender for the scheduler; with replay, it scores nodes for pods without GPUs too."""
    entry = component_config(extender.url) | ({"weight": weight} if weight else {})
    if policy != REPLAY:
        return [entry]
    scores = {"prioritizeVerb": entry.pop("prioritizeVerb"), "weight": entry.pop("weight")}
    common = ("urlPrefix", "enableHTTPS", "httpTimeout", "nodeCacheCapable")
    shared = {key: entry[key] for key in common if key in entry}
    return [entry, {**shared, **scores, "ignorable": True}]


async def placed(bed: Bed, count: int) -> list[int]:
    """The numbers of the bound pods, once all are bound or refused."""

    async def tried() -> bool:
        return not _states(await bed.api.items(_PODS))["untried"]

    await until(tried, f"{count} pods to be tried", _DEADLINE_S, 2)
    pods = await bed.api.items(_PODS)
    say(f"{dict(_states(pods))}")
    return [int(pod["metadata"]["name"].removeprefix("p")) for pod in pods if pod["spec"].get("nodeName")]


def _states(pods: Iterable[Object]) -> Counter[str]:
    return Counter(map(_state, pods))


def _state(pod: Object) -> str:
    if pod["spec"].get("nodeName"):
        return "bound"
    conditions = pod["status"].get("conditions", ())
    return "refused" if any(each["type"] == "PodScheduled" for each in conditions) else "untried"


def sim_node(spec: NodeSpec, policy: str) -> SimNode:
    """The node, whose GPUs have a unit for each thousandth.

    The models of the trace are a label only: the extender prefers models that it knows.
    """
    return SimNode(
        spec.name,
        [SimGpu(units=spec.milli)] * spec.gpus,
        labels={_MODEL: spec.model, **({} if policy == REPLAY else {LABEL_PLACEMENT: policy})},
        cpu=f"{spec.cpu}m",
        memory=f"{spec.memory}Mi",
        pods=1000,
    )


def pod_object(number: int, shape: Shape) -> Object:
    """The pod; an affinity chooses among its models."""
    resources: dict[str, int | str] = {"cpu": f"{shape.cpu}m", "memory": f"{shape.memory}Mi"}
    labels = {LABEL_CARDS_PER_POD: str(shape.gpus)} if shape.gpus > 1 else {}
    return gpu_pod(
        f"p{number}", shape.units or None, labels=labels, resources=resources, **_affinity(shape.models)
    )


def _affinity(models: frozenset[str]) -> dict[str, Any]:
    if not models:
        return {}
    expression = {"key": _MODEL, "operator": "In", "values": sorted(models)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


if __name__ == "__main__":
    main()
