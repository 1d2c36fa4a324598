"""The policy ``replay`` in a simulation, with the extender's own choice and sample."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Protocol

from gpushare.scheduling.placement.replay.engine import Engine
from gpushare.scheduling.placement.replay.needs import Need, Room
from gpushare.scheduling.placement.replay.policy import Replay
from gpushare.simulation.decider import Placed
from gpushare.simulation.node_state import NodeState
from gpushare.simulation.workload import NodeSpec, Shape, Workload

_MOST_MODELS: Final = 64


class Replaying:
    """Gives the engine what has changed, then asks for a node."""

    def __init__(self, workload: Workload, engine: Engine) -> None:
        models = sorted({spec.model for spec in workload.nodes})
        self._models = {model: min(number, _MOST_MODELS - 1) for number, model in enumerate(models)}
        self._empty = [self._room(NodeState(spec)) for spec in workload.nodes]
        self._rank = {spec.name: number for number, spec in enumerate(sorted(workload.nodes, key=_gpus))}
        self._engine, self._replay = engine, Replay(engine)
        self._order: list[int] = []
        self._seen = 0

    def place(self, states: Sequence[NodeState], changes: Sequence[int], shape: Shape) -> Placed | None:
        """The node that loses the least usable GPU."""
        self._follow(states, changes)
        need = self._need(shape)
        node = self._replay.choose(need, self._candidates(states, shape))
        gpus = () if node is None else self._replay.gpus(need, node)
        self.see(shape)
        return None if node is None else (node, gpus)

    def see(self, shape: Shape) -> None:
        """Learn from a pod, whoever has placed it."""
        self._replay.see(self._need(shape), lambda: self._empty)

    def _candidates(self, states: Sequence[NodeState], shape: Shape) -> Sequence[int]:
        """The nodes of its models: the number of a model may stand for several."""
        if not shape.models:
            return self._order
        return [index for index in self._order if states[index].spec.model in shape.models]

    def _follow(self, states: Sequence[NodeState], changes: Sequence[int]) -> None:
        changed = set(changes[self._seen :])
        if not self._order:
            self._order = sorted(range(len(states)), key=lambda index: self._rank[states[index].spec.name])
            changed = set(self._order)
        for index in changed:
            self._engine.put(index, self._room(states[index]))
        self._seen = len(changes)

    def _room(self, state: NodeState) -> Room:
        return Room(state.cpu, state.memory, self._models[state.spec.model], state.spec.milli, state.free)

    def _need(self, shape: Shape) -> Need:
        models = 0
        for model in shape.models:
            models |= 1 << self._models[model]
        return Need(shape.cpu, shape.memory, shape.gpus, shape.milli, models)


def _gpus(spec: NodeSpec) -> int:
    return spec.gpus


class ReplayingFactory(Protocol):
    """Makes the placer of one run."""

    def __call__(self, workload: Workload, rng: Random, /) -> Replaying:
        """Equal for each ``rng``."""


def replaying(engine: Callable[[], Engine]) -> ReplayingFactory:
    """Makes placers with an engine of their own."""

    def made(workload: Workload, _rng: Random) -> Replaying:
        return Replaying(workload, engine())

    return made
