"""Random: any node that fits, and any of its GPUs."""

from collections.abc import Sequence

from gpushare.simulation.node_state import UNFIT, NodeState
from gpushare.simulation.reference.base import Reference
from gpushare.simulation.workload import Shape


class RandomNode(Reference):
    """All nodes have equal points."""

    def points(self, _node: NodeState, _shape: Shape) -> float:
        """Always 0."""
        return 0

    def gpus(self, node: NodeState, shape: Shape) -> tuple[int, ...]:
        """GPUs at random."""
        fitting = [index for index, free in enumerate(node.free) if free >= shape.milli]
        return tuple(self.rng.sample(fitting, shape.gpus))

    def node(self, scores: Sequence[float]) -> int | None:
        """A node at random."""
        fitting = [index for index, score in enumerate(scores) if score != UNFIT]
        return self.rng.choice(fitting) if fitting else None
