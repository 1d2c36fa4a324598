"""The workload from its files or from the cluster, and the runs with their progress."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import click

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.replay.kernel import KernelEngine, loaded
from gpushare.cli.simulate import cluster
from gpushare.errors import InvalidRequest
from gpushare.overview.ledger_inputs import collect_cgpu_pods, collect_unhealthy, node_of
from gpushare.overview.lists import NODES, PODS, RUNNING, decoded, listed
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.simulation.policies import SIMULATED, factory_of
from gpushare.simulation.product import REPLAY
from gpushare.simulation.results import Results
from gpushare.simulation.run import Outcome, filled, steady
from gpushare.simulation.trace_csv import nodes_of, pods_of
from gpushare.simulation.workload import Workload


def policies_of(text: str) -> list[str]:
    """The names of a comma-separated list. Raises UsageError for an unknown one."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in SIMULATED:
            raise click.UsageError(f"no policy {name!r}; known: {', '.join(SIMULATED)}")
    return list(dict.fromkeys(names))


def workload_of(nodes: Path, pods: Path) -> Workload:
    """The workload of two files. Raises UsageError with file, line and column."""
    try:
        found = nodes_of(_text(nodes))
    except InvalidRequest as error:
        raise click.UsageError(f"{nodes}: {error}") from error
    try:
        return Workload(found, pods_of(_text(pods), frozenset(node.model for node in found if node.gpus)))
    except InvalidRequest as error:
        raise click.UsageError(f"{pods}: {error}") from error


async def live(client: KubeClient, notes: list[str]) -> Workload:
    """The workload of the cluster. Raises ApiError, and ConfigError if there is none."""
    # First alone: of several missing rights, the same one is always named.
    raw_nodes = await listed(client, NODES)
    raw_pods, unhealthy, cgpu_pods = await asyncio.gather(
        listed(client, PODS, {"fieldSelector": RUNNING}),
        collect_unhealthy(client, notes),
        collect_cgpu_pods(client),
    )
    nodes = {each.name: each for each in decoded(raw_nodes, ClusterNode, NODES)}
    seen = [node_of(each, cgpu_pods) for each in nodes.values()]
    return cluster.workload_of(nodes, seen, unhealthy, decoded(raw_pods, ClusterPod, PODS), notes)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"byte {error.start} is not UTF-8") from error


def write(path: Path, text: str) -> None:
    """Write a file. Raises UsageError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Runs:
    """What is simulated. ``scheduler``: kube-scheduler places the pods without GPUs."""

    policies: Sequence[str]
    seeds: int
    load: float
    lifetimes: float | None = None
    scheduler: bool = False


def run_all(workload: Workload, runs: Runs) -> Results:
    """Run each policy with each seed; on a terminal, a bar shows the progress. Raises KernelError."""
    if REPLAY in runs.policies:
        loaded()
    results: dict[str, list[Outcome]] = {name: [] for name in runs.policies}
    with click.progressbar(
        list(product(runs.policies, range(runs.seeds))),
        label="simulating",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
        item_show_func=lambda run: f"{run[0]}, seed {run[1]}" if run else "",
    ) as shown:
        for name, seed in shown:
            results[name].append(_outcome(workload, runs, name, seed))
    return results


def _outcome(workload: Workload, runs: Runs, policy: str, seed: int) -> Outcome:
    factory = factory_of(policy, KernelEngine, scheduler=runs.scheduler)
    steps = (
        steady(workload, factory, runs.load, runs.lifetimes, seed)
        if runs.lifetimes
        else filled(workload, factory, runs.load, seed)
    )
    return next(step for step in steps if isinstance(step, Outcome))
