"""FGD: the node and GPU where fragmentation grows least (fragmentation gradient descent)."""

from math import exp
from random import Random

from gpushare.simulation.fragmentation import Fragmentation
from gpushare.simulation.node_state import NodeState
from gpushare.simulation.reference.base import Reference, fullest
from gpushare.simulation.workload import GPU, Shape, Workload

_Decision = tuple[int, tuple[int, ...]]


class Fgd(Reference):
    """Whole points, as published, which tie on most nodes."""

    def __init__(self, workload: Workload, rng: Random) -> None:
        super().__init__(workload, rng)
        self._fragmentation = Fragmentation(workload)
        self._known: dict[tuple[str, int, tuple[int, ...], Shape], _Decision] = {}

    def points(self, node: NodeState, shape: Shape) -> float:
        """From 0 to 100; 50 if the fragmentation stays the same."""
        return self._decision(node, shape)[0]

    def gpus(self, node: NodeState, shape: Shape) -> tuple[int, ...]:
        """The GPU with the most points, or the idle ones."""
        return self._decision(node, shape)[1]

    def _decision(self, node: NodeState, shape: Shape) -> _Decision:
        key = node.spec.model, node.cpu, node.free, shape
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._decided(*key)
        return found

    def _decided(self, model: str, cpu: int, free: tuple[int, ...], shape: Shape) -> _Decision:
        before = self._fragmentation.of(model, cpu, free)
        best: _Decision = (-1, ())
        for gpus in _choices(free, shape):
            left = tuple(each - shape.milli if index in gpus else each for index, each in enumerate(free))
            gain = before - self._fragmentation.of(model, cpu - shape.cpu, left)
            points = int(100 / (1 + exp(-gain / 1000)))
            if points > best[0]:
                best = points, gpus
        return best


def _choices(free: tuple[int, ...], shape: Shape) -> list[tuple[int, ...]]:
    """The GPUs to compare: each one that fits for a pod with a part of a GPU, else one set."""
    if shape.gpus != 1 or shape.milli == GPU:
        return [fullest(free, shape)]
    return [(index,) for index, each in enumerate(free) if each >= shape.milli]
