"""``make bench PART=placement``: how many pods a cluster refuses, and how many GPUs stay empty, by policy.

A simulation with the ledger, the placement and the scores of the extender, and no other process: pods of
several sizes arrive and leave at random, and one that fits nowhere is refused for good. What belongs here:
the arrivals and the choice of the node, as kube-scheduler makes it. Equal seeds give equal results.
"""

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean
from typing import Final

import click

from gpushare.scheduling.book import CardUsage
from gpushare.scheduling.events import PodDeleted
from gpushare.scheduling.filtering import score_steps
from gpushare.scheduling.fitting import PodRequest
from gpushare.scheduling.ledger import apply
from tests.support.builders.scheduling import cluster, demand, node, pod, reserved
from tests.support.machine import machine
from tests.support.steps import finished

_CARD = 15
"""Units of a V100 with 16 GiB."""
_CARDS = 4
_SIZES: Final = {1: 20, 2: 25, 4: 30, 8: 20, 15: 5}
"""Units of a pod → percent of the pods."""
_MEAN = sum(size * percent for size, percent in _SIZES.items()) / 100
_SAMPLED: Final = 10
"""Pods between two samples of the cluster."""
Choice = Callable[[dict[str, int], random.Random], str]


def best(scores: dict[str, int], rng: random.Random) -> str:
    """A node with the best score of the extender; kube-scheduler chooses among equal ones at random."""
    highest = max(scores.values())
    return rng.choice([name for name, points in scores.items() if points == highest])


def any_node(scores: dict[str, int], rng: random.Random) -> str:
    """Any node: the scheduler itself does not see free units, and this extender has no scores."""
    return rng.choice(list(scores))


ARMS: Final[dict[str, tuple[str, Choice]]] = {
    "binpack": ("binpack", best),
    "binpack on the node, nodes at random": ("binpack", any_node),
    "spread": ("spread", best),
}
"""Name → policy of the pods, and the choice of the node."""


@dataclass(frozen=True)
class Run:
    """Results of one simulation, as fractions: of the pods, of the units, and of the GPUs."""

    refused: float
    allocated: float
    empty: float


@click.command()
@click.option("--nodes", default=25, show_default=True, help="Nodes with four GPUs of 15 units each.")
@click.option("--pods", default=10_000, show_default=True, help="Pods that arrive in each run.")
@click.option(
    "--seeds", default=3, show_default=True, help="Runs of each row, with equal pods for each policy."
)
@click.option(
    "--load",
    "loads",
    multiple=True,
    type=float,
    default=(0.8, 0.9, 1.0),
    help="Units asked for per unit.",
)
def main(nodes: int, pods: int, seeds: int, loads: tuple[float, ...]) -> None:
    """Print the results as Markdown."""
    click.echo(f"{machine()}\n")
    click.echo(f"{nodes} nodes with {_CARDS} GPUs of {_CARD} units, {pods:,} pods, {seeds} seeds.\n")
    click.echo(
        "| load | policy | pods refused | units allocated | GPUs without a pod |\n|---|---|---|---|---|"
    )
    for load in loads:
        for name, (policy, choice) in ARMS.items():
            runs = [simulate(policy, choice, nodes, pods, load, random.Random(seed)) for seed in range(seeds)]
            cells = (_spread([getattr(run, part) for run in runs]) for part in Run.__annotations__)
            click.echo(f"| {100 * load:.0f} % | {name} | {' | '.join(cells)} |")


def _spread(values: list[float]) -> str:
    """Mean, and the lowest and highest value."""
    return f"{100 * mean(values):.1f} % ({100 * min(values):.1f} to {100 * max(values):.1f})"


def simulate(policy: str, choice: Choice, nodes: int, pods: int, load: float, rng: random.Random) -> Run:
    """One run. ``load`` is the mean of the units that pods ask for at the same time, per unit of the cluster.

    The first fifth of the pods fills the cluster, and is not counted.
    """
    names = [f"n{index}" for index in range(nodes)]
    ledger = cluster(*(node(name, *[_CARD] * _CARDS) for name in names))
    ends: list[tuple[float, str]] = []
    refused, allocated, empty = [], [], []
    for number, (now, size, lifetime) in enumerate(_arrivals(pods, load * nodes * _CARDS * _CARD, rng)):
        while ends and ends[0][0] <= now:
            ledger = apply(ledger, PodDeleted(heapq.heappop(ends)[1]))
        who = pod(f"p{number}", size, placement=policy)
        asked = PodRequest(who.uid, demand(size), placement=policy)
        scores = finished(score_steps(ledger, asked, names))
        fitting = {name: points for name, points in scores.items() if points}
        if fitting:
            # A separate generator: all policies see equal pods.
            ledger = reserved(ledger, who, choice(fitting, random.Random(number)))
            heapq.heappush(ends, (now + lifetime, who.uid))
        if number < pods // 5:
            continue
        refused.append(float(not fitting))
        if number % _SAMPLED == 0:
            usages = [usage for name in names for usage in ledger.books[name].usages]
            allocated.append(_part(usages, lambda usage: (usage.total.mem - usage.free.mem) / _CARD))
            empty.append(_part(usages, lambda usage: float(usage.free.mem == _CARD)))
    return Run(mean(refused), mean(allocated), mean(empty))


def _part(usages: list[CardUsage], of: Callable[[CardUsage], float]) -> float:
    return sum(map(of, usages)) / len(usages)


def _arrivals(pods: int, units: float, rng: random.Random) -> Iterator[tuple[float, int, float]]:
    """Time, size and lifetime of each pod; the mean lifetime is 1."""
    now, per_time = 0.0, units / _MEAN
    for _ in range(pods):
        now += rng.expovariate(per_time)
        (size,) = rng.choices(list(_SIZES), list(_SIZES.values()))
        yield now, size, rng.expovariate(1.0)


if __name__ == "__main__":
    main()
