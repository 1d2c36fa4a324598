"""Where pods without GPUs go if kube-scheduler alone decides: they need not pass through the extender.

kube-scheduler's NodeResourcesFit prefers the node with the largest free part of CPU and memory
(LeastAllocated, its default).
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from gpushare.simulation.decider import Placed, Placer, PlacerFactory, Scored, first_best
from gpushare.simulation.node_state import NodeState
from gpushare.simulation.workload import Shape, Workload

_PERCENT: Final = 100


class LeastAllocated:
    """kube-scheduler's preference; for pods without GPUs only."""

    def score(self, node: NodeState, shape: Shape) -> float:
        """The free part of CPU and memory, in percent."""
        parts = ((node.cpu - shape.cpu, node.spec.cpu), (node.memory - shape.memory, node.spec.memory))
        return sum(_PERCENT * left // total for left, total in parts if total) // len(parts)

    def gpus(self, _node: NodeState, _shape: Shape) -> tuple[int, ...]:
        """None."""
        return ()

    def node(self, scores: Sequence[float]) -> int | None:
        """The first node with the highest score."""
        return first_best(scores)


class Divided:
    """A policy that places pods with GPUs only."""

    def __init__(self, policy: Placer) -> None:
        self._policy, self._scheduler = policy, Scored(LeastAllocated())

    def place(self, states: Sequence[NodeState], changes: Sequence[int], shape: Shape) -> Placed | None:
        """Where the policy or kube-scheduler places the pod."""
        placer = self._policy if shape.gpus else self._scheduler
        return placer.place(states, changes, shape)


def by_scheduler(factory: PlacerFactory) -> PlacerFactory:
    """The policy, with kube-scheduler's choice for pods without GPUs."""

    def made(workload: Workload, rng: Random) -> Divided:
        return Divided(factory(workload, rng))

    return made
