"""Clustering: pods with an equal number of GPUs on the same nodes (Gandiva, OSDI '18)."""

from gpushare.simulation.node_state import NodeState, kind_of
from gpushare.simulation.reference.base import MOST_GPU, Reference
from gpushare.simulation.workload import Shape


class Clustering(Reference):
    """Nodes with pods of this kind only, then with such pods too, then empty ones, then others."""

    def points(self, node: NodeState, shape: Shape) -> float:
        """From 0 to 100, a quarter for each class of nodes, and within it by the units in use."""
        if not shape.gpus:
            return 0
        kinds = {kind for kind, count in node.kinds.items() if count}
        return _least(kind_of(shape), kinds) + 25 * (MOST_GPU - sum(node.free)) // MOST_GPU


def _least(kind: tuple[int, bool], kinds: set[tuple[int, bool]]) -> int:
    if not kinds:
        return 25
    if kind not in kinds:
        return 0
    return 75 if len(kinds) == 1 else 50
