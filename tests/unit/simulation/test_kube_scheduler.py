"""What kube-scheduler decides beside a policy: small clusters whose result is known."""

from random import Random

import pytest

from gpushare.scheduling.placement.replay.engine import PlainEngine
from gpushare.scheduling.placement.replay.needs import Sequences
from gpushare.simulation.policies import factory_of
from gpushare.simulation.product import PRODUCTS, REPLAY
from gpushare.simulation.run import Nodes
from gpushare.simulation.workload import NodeSpec, Shape, Workload


def nodes_of(policy: str, *specs: NodeSpec, seed: int = 1) -> Nodes:
    workload = Workload(specs, ())
    placer = factory_of(policy, PlainEngine, scheduler=True)(workload, Random(seed))
    return Nodes(workload, placer, Random(seed))


def node(name: str, *, cpu: int = 8000, memory: int = 8000, gpus: int = 1) -> NodeSpec:
    return NodeSpec(name, cpu, memory, gpus, "T4")


def chosen(nodes: Nodes, shape: Shape) -> str:
    placed = nodes.place(shape)
    assert placed
    return nodes.states[placed[0]].spec.name


@pytest.mark.parametrize("policy", PRODUCTS)
def test_pods_without_gpus_go_to_the_emptiest_node(policy: str) -> None:
    nodes = nodes_of(policy, node("a"), node("b"))
    assert {chosen(nodes, Shape(1000, 1000, 0, 0)) for _ in range(2)} == {"a", "b"}


@pytest.mark.parametrize("policy", PRODUCTS)
def test_pods_without_gpus_prefer_a_node_where_they_balance_cpu_and_memory(policy: str) -> None:
    """Both have half of their CPU and memory free in sum; on one, more CPU than memory."""
    nodes = nodes_of(policy, node("even", cpu=4000, memory=4000), node("odd", cpu=4000, memory=4000))
    taken = {"even": (2000, 2000), "odd": (1000, 3000)}
    for state in nodes.states:
        state.change(Shape(*taken[state.spec.name], 0, 0), (), 1)
    assert chosen(nodes, Shape(1000, 0, 0, 0)) == "odd"


def test_a_point_of_the_extender_outvotes_a_small_difference_of_cpu() -> None:
    nodes = nodes_of("binpack", node("a"), node("b"))
    first = chosen(nodes, Shape(1000, 1000, 1, 500))
    assert chosen(nodes, Shape(1000, 1000, 1, 500)) == first


def test_the_emptier_of_two_nodes_wins_a_tie_of_the_policy() -> None:
    nodes = nodes_of("binpack", node("a"), node("b"))
    first = chosen(nodes, Shape(1000, 1000, 0, 0))
    assert chosen(nodes, Shape(1000, 1000, 1, 1000)) != first


def test_equal_nodes_are_taken_at_random() -> None:
    nodes = tuple(map(node, "abcd"))
    assert len({chosen(nodes_of("binpack", *nodes, seed=seed), Shape(1, 1, 1, 10)) for seed in range(20)}) > 1


def test_a_pod_that_fits_nowhere_has_no_node() -> None:
    nodes = nodes_of("binpack", node("a"))
    assert nodes.place(Shape(9000, 0, 0, 0)) is None
    assert nodes.place(Shape(0, 0, 2, 1000)) is None


def test_a_node_without_cpu_has_scores() -> None:
    nodes = nodes_of("binpack", node("a", cpu=0, memory=0))
    assert nodes.place(Shape(0, 0, 1, 500)) == (0, (0,))


class CountedLessons(PlainEngine):
    """An engine that counts its lessons."""

    lessons = 0

    def learn(self, sequences: Sequences) -> None:
        self.lessons += 1
        super().learn(sequences)


def test_replay_learns_from_the_pods_that_kube_scheduler_has_placed() -> None:
    engine = CountedLessons()
    workload = Workload((node("a", cpu=24),), ())
    nodes = Nodes(
        workload, factory_of(REPLAY, lambda: engine, scheduler=True)(workload, Random(1)), Random(1)
    )
    for _ in range(24):
        nodes.place(Shape(1, 1, 0, 0))
    assert nodes.place(Shape(1, 1, 0, 0)) is None
    assert engine.lessons == 0
    assert nodes.place(Shape(0, 1, 0, 0))
    assert engine.lessons == 1
