"""What a pod needs and what a node has left, and how one takes from the other.

Units of GPUs have any size, such as GiB or thousandths of a GPU, which is the same for pods and nodes. Models
of GPUs have numbers from 0 to 63; if there are more models, 63 stands for all others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple


class Need(NamedTuple):
    """A pod: CPU in thousandths of a core, memory in MiB, ``units`` on each of ``gpus`` GPUs.

    ``models`` has the bit of each model that will do; 0: any will.
    """

    cpu: int
    memory: int
    gpus: int
    units: int
    models: int = 0


class Room(NamedTuple):
    """What is free on a node, on each GPU in the order of the caller. ``gpu``: the units of one whole GPU."""

    cpu: int
    memory: int
    model: int
    gpu: int
    free: tuple[int, ...]


class Priced(NamedTuple):
    """A pod of a sequence. Its units count ``worth`` / 1024 times."""

    need: Need
    worth: int


Sequences = Sequence[Sequence[Priced]]
_NOTHING: Final[Mapping[Need, int]] = MappingProxyType({})


class Lesson(NamedTuple):
    """What nodes are evaluated by. ``several``: how often the sequences have each pod with several GPUs."""

    sequences: Sequences = ()
    several: Mapping[Need, int] = _NOTHING


def lesson_of(sequences: Sequences) -> Lesson:
    """The lesson of these sequences."""
    return Lesson(
        sequences, Counter(pod.need for sequence in sequences for pod in sequence if pod.need.gpus > 1)
    )


def fits(room: Room, need: Need) -> bool:
    """Whether the node can take the pod."""
    return (
        room.cpu >= need.cpu
        and room.memory >= need.memory
        and (not need.models or bool(need.models >> room.model & 1))
        and sum(free >= need.units for free in room.free) >= need.gpus
    )


def fullest(room: Room, need: Need) -> tuple[int, ...]:
    """The indices of the GPUs with the least free units that fit; the first of equal ones."""
    fitting = sorted((free, index) for index, free in enumerate(room.free) if free >= need.units)
    return tuple(index for _, index in fitting[: need.gpus])


def after(room: Room, need: Need, gpus: tuple[int, ...]) -> Room:
    """The node with the pod on these GPUs."""
    free = tuple(each - need.units if index in gpus else each for index, each in enumerate(room.free))
    return room._replace(cpu=room.cpu - need.cpu, memory=room.memory - need.memory, free=free)
