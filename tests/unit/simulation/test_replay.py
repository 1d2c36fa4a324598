"""``replay`` in a simulation: better than chance, and its order of nodes is by GPUs, then as in the input."""

from collections.abc import Callable
from random import Random
from statistics import mean

import pytest

from gpushare.adapters.replay.kernel import KernelEngine
from gpushare.scheduling.placement.replay.engine import Engine, PlainEngine
from gpushare.simulation.decider import PlacerFactory
from gpushare.simulation.policies import SIMULATED, factory_of
from gpushare.simulation.replay import replaying
from gpushare.simulation.run import Nodes, Outcome, filled
from gpushare.simulation.workload import NodeSpec, Shape, Workload

NODES = tuple(
    NodeSpec(f"n{index}", cpu, 256_000, gpus, model)
    for index, (cpu, gpus, model) in enumerate([(96_000, 8, "V100")] * 4 + [(32_000, 2, "T4")] * 12)
)
PODS = (
    (Shape(4000, 8000, 1, 300),) * 30
    + (Shape(6000, 8000, 1, 700),) * 20
    + (Shape(8000, 16_000, 1, 1000),) * 10
    + (Shape(32_000, 64_000, 8, 1000),) * 3
    + (Shape(8000, 8000, 0, 0),) * 15
    + (Shape(2000, 8000, 1, 500, frozenset({"T4"})),) * 10
)
needs_kernel = pytest.mark.needs("compiler", "make")


def outcome(factory: PlacerFactory, seed: int, workload: Workload) -> Outcome:
    return next(each for each in filled(workload, factory, 1.3, seed) if isinstance(each, Outcome))


@needs_kernel
def test_it_allocates_more_than_chance() -> None:
    workload = Workload(NODES, PODS)
    replay, chance = (
        mean(outcome(factory, seed, workload).allocated for seed in range(5))
        for factory in (factory_of("replay", KernelEngine, scheduler=False), SIMULATED["random"])
    )
    assert replay > chance


@needs_kernel
def test_the_kernel_and_python_give_equal_runs() -> None:
    workload = Workload(NODES[2:6], PODS[::3])
    native, plain = (outcome(replaying(engine), 1, workload) for engine in (KernelEngine, PlainEngine))
    assert native == plain


@pytest.mark.parametrize("engine", [PlainEngine, pytest.param(KernelEngine, marks=needs_kernel)])
def test_equal_nodes_are_filled_by_gpus_and_then_in_the_order_of_the_input(
    engine: Callable[[], Engine],
) -> None:
    specs = tuple(NodeSpec(name, 8000, 8000, gpus, "T4") for name, gpus in (("c", 2), ("b", 1), ("a", 1)))
    workload = Workload(specs, ())
    nodes = Nodes(workload, replaying(engine)(workload, Random(1)), Random(5))
    found = [nodes.place(Shape(0, 0, 1, 1000)) for _ in range(5)]
    names = [each and nodes.states[each[0]].spec.name for each in found]
    assert names == ["b", "a", "c", "c", None]


def test_models_beyond_the_numbers_of_the_engine_are_kept_apart() -> None:
    specs = tuple(NodeSpec(f"n{index}", 8000, 8000, 1, f"m{index:02}") for index in range(70))
    workload = Workload(specs, ())
    nodes = Nodes(workload, replaying(PlainEngine)(workload, Random(1)), Random(1))
    placed = nodes.place(Shape(0, 0, 1, 1000, frozenset({"m69"})))
    assert placed is not None
    assert nodes.states[placed[0]].spec.model == "m69"


def test_departures_make_room() -> None:
    workload = Workload((NodeSpec("a", 8000, 8000, 1, "T4"),), ())
    nodes = Nodes(workload, replaying(PlainEngine)(workload, Random(1)), Random(1))
    shape = Shape(0, 0, 1, 1000)
    assert nodes.place(shape) == (0, (0,))
    assert nodes.place(shape) is None
    nodes.remove(0, shape, (0,))
    assert nodes.place(shape) == (0, (0,))
