"""The value of a node, and what it loses by a pod. The native kernel computes the same numbers.

All numbers are whole, so that both are equal to the last bit.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gpushare.scheduling.placement.replay.needs import Lesson, Need, Priced, Room, after, fits, fullest

WORTH: Final = 1024
"""The worth of units that every node offers."""
MILLI: Final = 1000
SEVERAL: Final = 41
"""What a unit is worth besides, as long as pods with several GPUs could use it: 4 % of WORTH.

A sequence has few such pods, and its other pods fill any place. So the sequences alone leave no node whole
while pods come and go.
"""
UNFIT: Final = 2**62
"""Stands for a loss: the pod does not fit on the node."""


def value(room: Room, lesson: Lesson) -> int:
    """The units that the pods of all sequences could use, each sequence on its own, times their worth.

    Units that pods with several GPUs could use count SEVERAL more for each sequence.
    """
    usable = SEVERAL * len(lesson.sequences) * usable_by_several(room, lesson.several)
    return usable + sum(used(room, sequence) for sequence in lesson.sequences)


def usable_by_several(room: Room, several: Mapping[Need, int]) -> int:
    """The free units on GPUs that a pod with several GPUs could use, on average of these pods."""
    found = sum(
        count * sum(free for free in room.free if free >= need.units)
        for need, count in several.items()
        if fits(room, need)
    )
    return found // sum(several.values()) if found else 0


def used(room: Room, sequence: Sequence[Priced]) -> int:
    """What the pods of a sequence could use, one after the other."""
    total = 0
    for need, worth in sequence:
        if fits(room, need):
            room = after(room, need, fullest(room, need))
            total += need.gpus * need.units * worth
    return total


def loss(room: Room, need: Need, lesson: Lesson) -> int:
    """What the node loses by the pod, in 1/1024 thousandths of a GPU, or UNFIT. Negative if it gains.

    Without sequences: the units that stay free, so that the smallest loss is the best fit.
    """
    return best(room, need, lesson)[0]


def best(room: Room, need: Need, lesson: Lesson) -> tuple[int, tuple[int, ...]]:
    """The loss, and the indices of the GPUs that lose least; of equal ones, the GPUs with less free."""
    if not fits(room, need):
        return UNFIT, ()
    if not lesson.sequences:
        left = sum(room.free) - need.gpus * need.units
        return left * WORTH * MILLI // max(1, room.gpu), fullest(room, need)
    before, scale = value(room, lesson), max(1, room.gpu) * len(lesson.sequences)

    def lost(gpus: tuple[int, ...]) -> int:
        return (before - value(after(room, need, gpus), lesson)) * MILLI // scale

    return min(((lost(gpus), gpus) for gpus in choices(room, need)), key=lambda found: found[0])


def choices(room: Room, need: Need) -> list[tuple[int, ...]]:
    """The GPUs to compare, the fullest first: each one that fits for a pod with one GPU, else one set."""
    if need.gpus != 1:
        return [fullest(room, need)]
    ordered = sorted((free, index) for index, free in enumerate(room.free) if free >= need.units)
    return [(index,) for _, index in ordered]
