"""Where pods without GPUs go if kube-scheduler alone decides: they need not pass through the extender.

kube-scheduler's NodeResourcesFit prefers the node with the largest free part of CPU and memory
(LeastAllocated, its default).
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from gpushare.simulation.decider import Decider, DeciderFactory
from gpushare.simulation.node_state import NodeState
from gpushare.simulation.workload import Shape, Workload

_PERCENT: Final = 100


class LeastAllocated:
    """A policy that decides about pods with GPUs only."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider

    def score(self, node: NodeState, shape: Shape) -> float:
        """The free part of CPU and memory for pods without GPUs, else the score of the policy."""
        return self._decider.score(node, shape) if shape.gpus else _free_part(node, shape)

    def gpus(self, node: NodeState, shape: Shape) -> tuple[int, ...]:
        """Those of the policy."""
        return self._decider.gpus(node, shape)

    def node(self, scores: Sequence[float]) -> int | None:
        """The one of the policy."""
        return self._decider.node(scores)


def _free_part(node: NodeState, shape: Shape) -> float:
    parts = ((node.cpu - shape.cpu, node.spec.cpu), (node.memory - shape.memory, node.spec.memory))
    return sum(_PERCENT * left // total for left, total in parts if total) // len(parts)


def by_scheduler(factory: DeciderFactory) -> DeciderFactory:
    """The policy, with kube-scheduler's choice for pods without GPUs."""

    def made(workload: Workload, rng: Random) -> LeastAllocated:
        return LeastAllocated(factory(workload, rng))

    return made
