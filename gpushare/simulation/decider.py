"""What a policy decides in a simulation."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from gpushare.simulation.node_state import UNFIT, NodeState
from gpushare.simulation.workload import Shape, Workload


class Decider(Protocol):
    """A policy. A score depends on the node and the shape alone: it is kept until the node changes."""

    def score(self, node: NodeState, shape: Shape, /) -> float:
        """How well a node with room suits a pod, or UNFIT if its GPUs do not fit."""

    def gpus(self, node: NodeState, shape: Shape, /) -> tuple[int, ...]:
        """The indices of the GPUs for a pod that fits."""

    def node(self, scores: Sequence[float], /) -> int | None:
        """The index of the chosen node; None if no node fits."""


class DeciderFactory(Protocol):
    """Makes the decider of one run."""

    def __call__(self, workload: Workload, rng: Random, /) -> Decider:
        """``rng`` belongs to the decider."""


def first_best(scores: Sequence[float]) -> int | None:
    """The node with the highest score, the first of equal ones."""
    highest = max(scores)
    return None if highest == UNFIT else scores.index(highest)
