"""The value of a node, and what it loses by a pod. The native kernel computes the same numbers.

All numbers are whole, so that both are equal to the last bit.
"""

from collections.abc import Sequence
from typing import Final

from gpushare.scheduling.placement.replay.needs import Need, Priced, Room, Sequences, after, fits, fullest

WORTH: Final = 1024
"""The worth of units that every node offers."""
MILLI: Final = 1000
BREAK: Final = 20 * WORTH
"""What each GPU of a node loses where all GPUs are free and a pod leaves some of them.

A sequence has few pods that need all GPUs, so its loss alone leaves no node whole while pods come and go.
"""
UNFIT: Final = 2**62
"""Stands for a loss: the pod does not fit on the node."""


def value(room: Room, sequences: Sequences) -> int:
    """The units that the pods of all sequences could use, each sequence on its own, times their worth."""
    return sum(used(room, sequence) for sequence in sequences)


def used(room: Room, sequence: Sequence[Priced]) -> int:
    """What the pods of a sequence could use, one after the other."""
    total = 0
    for need, worth in sequence:
        if fits(room, need):
            room = after(room, need, fullest(room, need))
            total += need.gpus * need.units * worth
    return total


def loss(room: Room, need: Need, sequences: Sequences) -> int:
    """What the node loses by the pod, in 1/1024 thousandths of a GPU, or UNFIT. Negative if it gains.

    Without sequences: the units that stay free, so that the smallest loss is the best fit.
    """
    return best(room, need, sequences)[0]


def best(room: Room, need: Need, sequences: Sequences) -> tuple[int, tuple[int, ...]]:
    """The loss, and the indices of the GPUs that lose least; of equal ones, the GPUs with less free."""
    if not fits(room, need):
        return UNFIT, ()
    if not sequences:
        left = sum(room.free) - need.gpus * need.units
        return left * WORTH * MILLI // max(1, room.gpu), fullest(room, need)
    before, scale = value(room, sequences), max(1, room.gpu) * len(sequences)

    def lost(gpus: tuple[int, ...]) -> int:
        return (before - value(after(room, need, gpus), sequences)) * MILLI // scale

    least, gpus = min(((lost(gpus), gpus) for gpus in choices(room, need)), key=lambda found: found[0])
    return least + broken_up(room, need), gpus


def broken_up(room: Room, need: Need) -> int:
    """What the node loses besides, if its GPUs are all free and the pod leaves some of them."""
    count = len(room.free)
    if count < 2 or need.gpus == count or min(room.free) < room.gpu:  # noqa: PLR2004 - several GPUs
        return 0
    return BREAK * count


def choices(room: Room, need: Need) -> list[tuple[int, ...]]:
    """The GPUs to compare, the fullest first: each one that fits for a pod with one GPU, else one set."""
    if need.gpus != 1:
        return [fullest(room, need)]
    ordered = sorted((free, index) for index, free in enumerate(room.free) if free >= need.units)
    return [(index,) for _, index in ordered]
