"""BestFit: the node with the least CPU and GPU left, both weighted equally."""

from gpushare.simulation.node_state import NodeState
from gpushare.simulation.reference.base import MOST_CPU, MOST_GPU, Reference
from gpushare.simulation.workload import Shape


class BestFit(Reference):
    """Fewer points for what is left."""

    def points(self, node: NodeState, shape: Shape) -> float:
        """From 0 to 100."""
        cpu, gpu = node.cpu - shape.cpu, sum(node.free) - shape.units
        return int((1 - (cpu / MOST_CPU + gpu / MOST_GPU) / 2) * 100)
