"""One run: pods arrive, and leave after their lifetime if they have one; what was placed and refused."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from statistics import mean
from typing import Final

from gpushare.simulation.decider import Placed, Placer, PlacerFactory
from gpushare.simulation.fragmentation import Fragmentation
from gpushare.simulation.node_state import NodeState
from gpushare.simulation.tuning import tuned
from gpushare.simulation.workload import Shape, Workload

EARLY: Final = 0.8
"""A pod that is refused before this part of all GPUs was allocated is refused early."""
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of one run, in percent.

    ``allocated``: units of all units, at the end or, with departures, mean over time. ``fragmented``: units
    that no typical pod could use, of all units. ``refused_early``: of the pods that arrived before 80 % were
    allocated; ``refused``: of all pods. ``curve``: requested and allocated units of all units, on the way.
    """

    allocated: float
    fragmented: float
    refused_early: float
    refused: float
    curve: tuple[tuple[float, float], ...] = ()


class Nodes:
    """The nodes in their order of this run."""

    def __init__(self, workload: Workload, placer: Placer, rng: Random) -> None:
        specs = list(workload.nodes)
        rng.shuffle(specs)
        self.states = [NodeState(spec) for spec in specs]
        self._placer = placer
        self._changes: list[int] = []
        self.allocated = 0

    def place(self, shape: Shape) -> Placed | None:
        """Place a pod; its node and GPUs, or None if it is refused."""
        placed = self._placer.place(self.states, self._changes, shape)
        if placed:
            self._change(*placed, shape, 1)
        return placed

    def remove(self, index: int, shape: Shape, gpus: tuple[int, ...]) -> None:
        """Remove a pod."""
        self._change(index, gpus, shape, -1)

    def _change(self, index: int, gpus: tuple[int, ...], shape: Shape, sign: int) -> None:
        self.states[index].change(shape, gpus, sign)
        self.allocated += sign * shape.units
        self._changes.append(index)


def filled(workload: Workload, factory: PlacerFactory, load: float, seed: int) -> Iterator[int | Outcome]:
    """One run without departures: yields the number of pods so far now and then, and last the outcome."""
    rng = Random(seed)  # noqa: S311 - a reproducible simulation
    pods = tuned(workload, load, rng)
    nodes = Nodes(workload, factory(workload, Random(rng.random())), rng)  # noqa: S311
    fragmentation = Fragmentation(workload)
    early = arrived_early = refused = requested = 0
    curve: list[tuple[float, float]] = []
    step = max(1, len(pods) // _PERCENT)
    for number, shape in enumerate(pods):
        is_early = nodes.allocated < EARLY * workload.capacity
        arrived_early += is_early
        requested += shape.units
        if nodes.place(shape) is None:
            refused += 1
            early += is_early
        if number % step == 0:
            asked, got = requested, nodes.allocated
            curve.append((_percent(asked, workload.capacity), _percent(got, workload.capacity)))
            yield number
    yield Outcome(
        _percent(nodes.allocated, workload.capacity),
        _percent(fragmentation.of_all(nodes.states), workload.capacity),
        _percent(early, arrived_early),
        _percent(refused, len(pods)),
        tuple(curve),
    )


def _percent(part: float, whole: float) -> float:
    return _PERCENT * part / whole if whole else 0.0


def steady(
    workload: Workload, factory: PlacerFactory, load: float, lifetimes: float, seed: int
) -> Iterator[int | Outcome]:
    """One run with departures, over this many mean lifetimes; the second half of the time is measured.

    Pods are drawn from the workload, and request ``load`` of all GPUs at the same time on average.
    """
    rng = Random(seed)  # noqa: S311 - a reproducible simulation
    nodes = Nodes(workload, factory(workload, Random(rng.random())), rng)  # noqa: S311
    fragmentation = Fragmentation(workload)
    rate = load * workload.capacity * len(workload.pods) / sum(pod.units for pod in workload.pods)
    ends: list[tuple[float, int, int, Shape, tuple[int, ...]]] = []
    now, number, half = 0.0, 0, lifetimes / 2
    samples: list[float] = []
    arrived = refused = 0
    allocated = 0.0

    def advance(moment: float) -> None:
        nonlocal now, allocated
        allocated += nodes.allocated * max(0.0, min(moment, lifetimes) - max(now, half))
        now = moment

    while now < lifetimes:
        arrival = now + rng.expovariate(rate)
        shape, lifetime = rng.choice(workload.pods), rng.expovariate(1)
        while ends and ends[0][0] <= arrival:
            end, _, index, gone, gpus = heapq.heappop(ends)
            advance(end)
            nodes.remove(index, gone, gpus)
        advance(arrival)
        placed = nodes.place(shape)
        if placed:
            heapq.heappush(ends, (now + lifetime, number, placed[0], shape, placed[1]))
        if now >= half:
            arrived += 1
            refused += placed is None
        # As many samples of the fragmentation as percents of the measured time.
        if now - half >= len(samples) * half / _PERCENT:
            samples.append(fragmentation.of_all(nodes.states))
        if number % _PERCENT == 0:
            yield number
        number += 1
    yield Outcome(
        _percent(allocated, half * workload.capacity),
        _percent(mean(samples), workload.capacity) if samples else 0.0,
        0.0,
        _percent(refused, arrived),
    )
