"""What kube-scheduler itself decides in a cluster: where pods without GPUs go, and who wins a tie of scores.

Its default scores prefer the node whose free part of CPU and memory is largest (LeastAllocated), and where
the pod balances their use (BalancedAllocation). They are added to the scores of the extender with its weight,
and of equal nodes one is taken at random. Source: github.com/kubernetes/kubernetes, v1.36.0, pkg/scheduler:
framework/plugins/noderesources, and prioritizeNodes in schedule_one.go.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from gpushare.kubescheduler.config import DEFAULT_WEIGHT
from gpushare.simulation.decider import Decider, DeciderFactory, Placed, PlacerFactory, Scored
from gpushare.simulation.node_state import UNFIT, NodeState
from gpushare.simulation.replay import Replaying, ReplayingFactory
from gpushare.simulation.workload import NodeSpec, Shape, Workload

_MOST: Final = 100
"""MaxNodeScore."""
_PER_POINT: Final = DEFAULT_WEIGHT * _MOST // 10
"""What a point of the extender adds, of which a node has up to 10."""


class Tied:
    """A policy that scores pods with GPUs, with kube-scheduler's own scores and choice. None: no GPU pods."""

    def __init__(self, policy: Decider | None, rng: Random) -> None:
        self._policy, self._rng = policy, rng

    def score(self, node: NodeState, shape: Shape) -> float:
        """The sum of all scores, or UNFIT."""
        points = self._policy.score(node, shape) if self._policy and shape.gpus else 0
        return UNFIT if points == UNFIT else _PER_POINT * points + _own(node, shape)

    def gpus(self, node: NodeState, shape: Shape) -> tuple[int, ...]:
        """Those of the policy."""
        return self._policy.gpus(node, shape) if self._policy and shape.gpus else ()

    def node(self, scores: Sequence[float]) -> int | None:
        """One of the nodes with the highest score."""
        highest = max(scores)
        if highest == UNFIT:
            return None
        return self._rng.choice([index for index, each in enumerate(scores) if each == highest])


def _own(node: NodeState, shape: Shape) -> int:
    """LeastAllocated and BalancedAllocation."""
    cpu, memory = node.cpu - shape.cpu, node.memory - shape.memory
    change = _balance(node.spec, cpu, memory) - _balance(node.spec, node.cpu, node.memory)
    return _free(node.spec, cpu, memory) + _MOST // 2 + (_MOST // 2 + change) // 2


def _free(spec: NodeSpec, cpu: int, memory: int) -> int:
    parts = [_MOST * free // total for free, total in ((cpu, spec.cpu), (memory, spec.memory)) if total]
    return sum(parts) // len(parts) if parts else 0


def _balance(spec: NodeSpec, cpu: int, memory: int) -> int:
    if not (spec.cpu and spec.memory):
        return _MOST
    return int((1 - abs(cpu / spec.cpu - memory / spec.memory) / 2) * _MOST)


class Divided:
    """replay chooses the nodes of pods with GPUs; kube-scheduler chooses those of the others."""

    def __init__(self, replay: Replaying, rng: Random) -> None:
        self._replay, self._others = replay, Scored(Tied(None, rng))

    def place(self, states: Sequence[NodeState], changes: Sequence[int], shape: Shape) -> Placed | None:
        """Where replay or kube-scheduler places the pod; replay learns from both, as in the extender."""
        if shape.gpus:
            return self._replay.place(states, changes, shape)
        placed = self._others.place(states, changes, shape)
        if placed:
            self._replay.see(shape)
        return placed


def tied(factory: DeciderFactory) -> PlacerFactory:
    """The policy that scores one node at a time, in a cluster."""

    def made(workload: Workload, rng: Random) -> Scored:
        return Scored(Tied(factory(workload, rng), rng))

    return made


def divided(factory: ReplayingFactory) -> PlacerFactory:
    """replay, which sees all nodes and outvotes other scores, in a cluster."""

    def made(workload: Workload, rng: Random) -> Divided:
        return Divided(factory(workload, rng), rng)

    return made
