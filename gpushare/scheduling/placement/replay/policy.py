"""The choice among nodes by their losses, and when the engine learns."""

from collections.abc import Callable, Sequence
from typing import Final

from gpushare.scheduling.placement.replay.engine import Engine
from gpushare.scheduling.placement.replay.needs import Need, Room
from gpushare.scheduling.placement.replay.sample import Sample
from gpushare.scheduling.placement.replay.value import UNFIT, WORTH

TIE: Final = 20 * WORTH
"""Losses that differ by 20 thousandths of a GPU or less are equal: they come from chance."""


def first_of_best(losses: Sequence[int]) -> int | None:
    """The position of the first loss that is equal to the smallest one; None if no node fits."""
    least = min(losses, default=UNFIT)
    if least == UNFIT:
        return None
    return next(position for position, each in enumerate(losses) if each <= least + TIE)


class Replay:
    """Places the pods of a cluster. The caller keeps the engine's nodes as they are.

    The order of nodes is fixed: those with fewer GPUs first, so that nodes with many stay whole.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sample = Sample()

    def choose(self, need: Need, nodes: Sequence[int]) -> int | None:
        """The node for a pod, of candidates in the fixed order; None if it fits on none."""
        position = first_of_best(self._engine.losses(need, nodes))
        return None if position is None else nodes[position]

    def gpus(self, need: Need, node: int) -> tuple[int, ...]:
        """The indices of the GPUs for the pod on its node."""
        return self._engine.gpus(need, node)

    def see(self, need: Need, empty: Callable[[], Sequence[Room]]) -> None:
        """Learn from a pod, after the decision about it. ``empty``: all nodes as if they had no pods."""
        if self._sample.see(need):
            self._engine.learn(self._sample.sequences(empty()))
