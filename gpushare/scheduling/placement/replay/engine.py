"""What evaluates nodes: its protocol, and the engine in Python for tests and small workloads."""

from collections.abc import Sequence
from typing import Protocol

from gpushare.scheduling.placement.replay.needs import Lesson, Need, Room, Sequences, lesson_of
from gpushare.scheduling.placement.replay.value import UNFIT, best


class Engine(Protocol):
    """Knows what is free on each node, by a number that the caller chooses, and the sequences."""

    def put(self, node: int, room: Room | None, /) -> None:
        """Add or replace a node; None removes it."""

    def learn(self, sequences: Sequences, /) -> None:
        """Use these sequences from now on."""

    def losses(self, need: Need, nodes: Sequence[int], /) -> Sequence[int]:
        """The loss of each node in 1/1024 thousandths of a GPU, or UNFIT; UNFIT for an unknown node."""

    def gpus(self, need: Need, node: int, /) -> tuple[int, ...]:
        """The indices of the GPUs for a pod that fits on the node, in the order of ``Room.free``."""


class PlainEngine:
    """The engine in Python. Results are kept until the sequences change."""

    def __init__(self) -> None:
        self._rooms: dict[int, Room] = {}
        self._lesson = Lesson()
        self._known: dict[tuple[Room, Need], tuple[int, tuple[int, ...]]] = {}

    def put(self, node: int, room: Room | None) -> None:
        """Add or replace a node; None removes it."""
        if room is None:
            self._rooms.pop(node, None)
        else:
            self._rooms[node] = room

    def learn(self, sequences: Sequences) -> None:
        """Use these sequences from now on."""
        self._lesson = lesson_of(sequences)
        self._known.clear()

    def losses(self, need: Need, nodes: Sequence[int]) -> Sequence[int]:
        """The loss of each node."""
        return [self._best(self._rooms[node], need)[0] if node in self._rooms else UNFIT for node in nodes]

    def gpus(self, need: Need, node: int) -> tuple[int, ...]:
        """The indices of the GPUs for a pod that fits on the node."""
        return self._best(self._rooms[node], need)[1]

    def _best(self, room: Room, need: Need) -> tuple[int, tuple[int, ...]]:
        found = self._known.get((room, need))
        if found is None:
            found = self._known[room, need] = best(room, need, self._lesson)
        return found
