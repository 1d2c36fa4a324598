"""A simulated decision is the one that the extender makes on its ledger."""

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gpushare.scheduling.filtering import filter_steps, score_steps
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.placement import POLICIES
from gpushare.simulation.product import PRODUCTS
from gpushare.simulation.run import Nodes
from gpushare.simulation.workload import GPU, NodeSpec, Shape, Workload
from tests.support.builders.scheduling import cluster, decided, demand, node, pod, pod_request, reserved
from tests.support.steps import finished

SIZES = (100, 250, 500, 700, GPU)
REQUESTS = st.tuples(st.sampled_from((1, 1, 1, 2, 4)), st.sampled_from(SIZES))
GPUS_OF_NODES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def extender_decision(
    ledger: Ledger, shape: Shape, policy: str, order: Sequence[str]
) -> tuple[str, tuple[int, ...]] | None:
    """Filter, scores and placement as a cluster has them; the first node with the most points."""
    wanted = demand(shape.units, cards=shape.gpus)
    request = pod_request(wanted, placement=policy)
    passed = finished(filter_steps(ledger, request, order)).passed
    if not passed:
        return None
    points = finished(score_steps(ledger, request, passed))
    best = max(passed, key=lambda name: points[name])
    return best, tuple(index for index, _ in decided(ledger, pod("p", wanted, placement=policy), best))


@given(GPUS_OF_NODES, st.lists(REQUESTS, max_size=25), st.sampled_from(sorted(POLICIES)))
def test_nodes_and_gpus_are_those_of_the_extender(
    counts: list[int], requests: list[tuple[int, int]], policy: str
) -> None:
    specs = tuple(NodeSpec(f"n{index}", 1000, 1000, count, "T4") for index, count in enumerate(counts))
    workload = Workload(specs, ())
    nodes = Nodes(workload, PRODUCTS[policy](workload, Random(1)), Random(1))
    order = [state.spec.name for state in nodes.states]
    ledger = cluster(*(node(spec.name, *[GPU] * spec.gpus) for spec in specs))
    for number, (gpus, milli) in enumerate(requests):
        shape = Shape(0, 0, gpus, milli)
        expected = extender_decision(ledger, shape, policy, order)
        placed = nodes.place(shape)
        assert (placed and (order[placed[0]], placed[1])) == expected
        if expected:
            who = pod(f"p{number}", demand(shape.units, cards=gpus), placement=policy)
            ledger = reserved(ledger, who, expected[0])


def test_pods_without_gpus_tie_everywhere() -> None:
    workload = Workload(tuple(NodeSpec(name, 8000, 8000, 1, "T4") for name in "ab"), ())
    nodes = Nodes(workload, PRODUCTS["binpack"](workload, Random(1)), Random(1))
    assert [nodes.place(Shape(1000, 1000, 0, 0)) for _ in range(2)] == [(0, ()), (0, ())]
