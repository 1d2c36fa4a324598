"""What the reference policies share."""

from collections.abc import Sequence
from random import Random
from typing import Final

from gpushare.simulation.decider import first_best
from gpushare.simulation.node_state import UNFIT, NodeState
from gpushare.simulation.workload import GPU, Shape, Workload

MOST_CPU: Final = 128_000
"""CPU of the largest node, which the sources divide by."""
MOST_GPU: Final = 8 * GPU
"""Units of the largest node."""


class Reference:
    """The node with the highest score, and on it the GPUs with the least free units that fit."""

    def __init__(self, workload: Workload, rng: Random) -> None:
        self.workload, self.rng = workload, rng

    def score(self, node: NodeState, shape: Shape) -> float:
        """The points of a node, or UNFIT."""
        return self.points(node, shape) if node.has_gpus(shape) else UNFIT

    def points(self, _node: NodeState, _shape: Shape) -> float:
        """Whole points of a node that fits."""
        raise NotImplementedError

    def gpus(self, node: NodeState, shape: Shape) -> tuple[int, ...]:
        """The fullest GPUs that fit."""
        return fullest(node.free, shape)

    def node(self, scores: Sequence[float]) -> int | None:
        """The first node with the highest score."""
        return first_best(scores)


def fullest(free: tuple[int, ...], shape: Shape) -> tuple[int, ...]:
    """The indices of the GPUs with the least free units that fit."""
    fitting = [(each, index) for index, each in enumerate(free) if each >= shape.milli]
    return tuple(index for _, index in sorted(fitting)[: shape.gpus])
