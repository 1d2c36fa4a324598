"""Packing: GPUs in use first, then idle GPUs of nodes in use, then empty nodes (MLaaS, NSDI '22)."""

from gpushare.simulation.node_state import NodeState
from gpushare.simulation.reference.base import Reference, fullest
from gpushare.simulation.workload import Shape


class Packing(Reference):
    """Points for each of the three cases."""

    def points(self, node: NodeState, shape: Shape) -> float:
        """From 0 to 100."""
        if not shape.gpus:
            return 0
        gpu = node.spec.milli
        idle = node.free.count(gpu)
        if idle == len(node.free):
            return max(33 - idle, idle)
        chosen = [node.free[index] for index in fullest(node.free, shape)]
        if fresh := chosen.count(gpu):
            return max(50 - fresh, 33)
        return max(100 - sum(free * 100 // gpu for free in chosen) // 10, 50)
