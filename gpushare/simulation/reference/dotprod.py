"""DotProd: the node whose free CPU and GPU are least aligned with the request (Tetris, SIGCOMM '14)."""

from gpushare.simulation.node_state import NodeState
from gpushare.simulation.reference.base import MOST_CPU, MOST_GPU, Reference
from gpushare.simulation.workload import Shape


class DotProd(Reference):
    """Fewer points for a larger product of what is free and what is requested."""

    def points(self, node: NodeState, shape: Shape) -> float:
        """From 0 to 100."""
        cpu = (node.cpu / MOST_CPU) * (shape.cpu / MOST_CPU)
        gpu = (sum(node.free) / MOST_GPU) * (shape.units / MOST_GPU)
        return int(100 * (1 - (cpu + gpu) / 2))
