"""Runs on small workloads: what is placed, refused and allocated."""

from random import Random

import pytest

from gpushare.simulation.policies import SIMULATED
from gpushare.simulation.run import Outcome, filled, steady
from gpushare.simulation.tuning import tuned
from gpushare.simulation.workload import NodeSpec, Shape, Workload

NODES = tuple(NodeSpec(f"n{index}", 16_000, 64_000, 4, "T4") for index in range(4))
MIX = (Shape(1000, 1000, 1, 500),) * 6 + (Shape(2000, 1000, 1, 1000),) * 3 + (Shape(500, 500, 0, 0),)


def outcome(workload: Workload, policy: str, load: float = 1.3, seed: int = 0) -> Outcome:
    return next(each for each in filled(workload, SIMULATED[policy], load, seed) if isinstance(each, Outcome))


@pytest.mark.parametrize("policy", SIMULATED)
def test_every_policy_fills_equal_nodes_and_repeats_itself(policy: str) -> None:
    workload = Workload(NODES, MIX)
    found = outcome(workload, policy)
    assert 60 < found.allocated <= 100
    assert found == outcome(workload, policy)


@pytest.mark.parametrize("policy", SIMULATED)
def test_what_fits_exactly_is_placed_whole(policy: str) -> None:
    whole = Workload(NODES, (Shape(4000, 16_000, 1, 1000),))
    found = outcome(whole, policy, load=1.0)
    assert (found.allocated, found.refused) == (100, 0)


def test_cpu_memory_and_model_refuse() -> None:
    for shape in (
        Shape(16_001, 0, 1, 1000),
        Shape(0, 64_001, 1, 1000),
        Shape(0, 0, 1, 1000, frozenset({"P100"})),
    ):
        found = outcome(Workload(NODES, (shape,)), "binpack")
        assert (found.allocated, found.refused, found.refused_early) == (0, 100, 100)


def test_pods_are_removed_or_cloned_to_the_load() -> None:
    workload = Workload(NODES, MIX * 4)
    few = tuned(workload, 0.5, Random(1))
    many = tuned(workload, 2.0, Random(1))
    assert sum(pod.units for pod in few) <= 0.5 * workload.capacity
    assert 2.0 * workload.capacity - 1000 < sum(pod.units for pod in many) <= 2.0 * workload.capacity
    assert set(many) <= set(MIX)


def test_departures_make_room_again() -> None:
    run = steady(Workload(NODES, MIX), SIMULATED["binpack"], 0.5, 20, 1)
    found = next(each for each in run if isinstance(each, Outcome))
    assert found.allocated == pytest.approx(50, abs=15)
    assert found.refused < 10


@pytest.mark.parametrize("policy", SIMULATED)
def test_a_smaller_gpu_takes_less(policy: str) -> None:
    small = NodeSpec("small", 16_000, 64_000, 2, "T4", 500)
    found = outcome(Workload((small,), (Shape(1000, 1000, 1, 250),)), policy, load=1.0)
    assert found.allocated == 100
    found = outcome(Workload((small,), (Shape(1000, 1000, 1, 501),)), policy, load=1.0)
    assert found.allocated == 0
