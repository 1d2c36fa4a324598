"""What a policy decides in a simulation."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from gpushare.simulation.node_state import UNFIT, NodeState
from gpushare.simulation.workload import Shape, Workload

Placed = tuple[int, tuple[int, ...]]
"""The index of a pod's node, and the indices of its GPUs there."""


class Decider(Protocol):
    """A policy that scores one node at a time. A score depends on the node and the shape alone."""

    def score(self, node: NodeState, shape: Shape, /) -> float:
        """How well a node with room suits a pod, or UNFIT if its GPUs do not fit."""

    def gpus(self, node: NodeState, shape: Shape, /) -> tuple[int, ...]:
        """The indices of the GPUs for a pod that fits."""

    def node(self, scores: Sequence[float], /) -> int | None:
        """The index of the chosen node; None if no node fits."""


class Placer(Protocol):
    """A policy that sees all nodes."""

    def place(self, states: Sequence[NodeState], changes: Sequence[int], shape: Shape, /) -> Placed | None:
        """Where a pod goes; None if no node fits. Changes no node.

        ``changes`` has the index of a node for each change so far, the oldest first.
        """


class DeciderFactory(Protocol):
    """Makes the decider of one run."""

    def __call__(self, workload: Workload, rng: Random, /) -> Decider:
        """``rng`` belongs to the decider."""


class PlacerFactory(Protocol):
    """Makes the placer of one run."""

    def __call__(self, workload: Workload, rng: Random, /) -> Placer:
        """``rng`` belongs to the placer."""


class Scored:
    """Places by the scores of a decider. Scores are kept until the node changes."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._scores: dict[Shape, tuple[int, list[float]]] = {}

    def place(self, states: Sequence[NodeState], changes: Sequence[int], shape: Shape) -> Placed | None:
        """The node that the decider chooses by the scores of all."""
        index = self._decider.node(self._valid_scores(states, changes, shape))
        return None if index is None else (index, self._decider.gpus(states[index], shape))

    def _valid_scores(self, states: Sequence[NodeState], changes: Sequence[int], shape: Shape) -> list[float]:
        """The scores of all nodes; only nodes that changed since the last pod of this shape are evaluated."""
        seen, scores = self._scores.get(shape, (-1, []))
        if seen < 0:
            scores = [self._score(state, shape) for state in states]
        else:
            for index in set(changes[seen:]):
                scores[index] = self._score(states[index], shape)
        self._scores[shape] = len(changes), scores
        return scores

    def _score(self, state: NodeState, shape: Shape) -> float:
        return self._decider.score(state, shape) if state.has_room(shape) else UNFIT


def scored(factory: DeciderFactory) -> PlacerFactory:
    """Makes placers that use a decider."""

    def made(workload: Workload, rng: Random) -> Scored:
        return Scored(factory(workload, rng))

    return made


def first_best(scores: Sequence[float]) -> int | None:
    """The node with the highest score, the first of equal ones."""
    highest = max(scores)
    return None if highest == UNFIT else scores.index(highest)
