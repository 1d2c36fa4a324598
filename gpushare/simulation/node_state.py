"""What is free on one simulated node."""

from dataclasses import dataclass, field
from typing import Final

from gpushare.simulation.workload import GPU, NodeSpec, Shape

UNFIT: Final = -1.0
"""Stands for a score: the pod does not fit on the node."""


@dataclass(slots=True)
class NodeState:
    """Free CPU, memory and units of each GPU. ``kinds`` counts the pods of each number of GPUs."""

    spec: NodeSpec
    cpu: int = field(init=False)
    memory: int = field(init=False)
    free: tuple[int, ...] = field(init=False)
    kinds: dict[tuple[int, bool], int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.cpu, self.memory = self.spec.cpu, self.spec.memory
        self.free = (self.spec.milli,) * self.spec.gpus

    def has_room(self, shape: Shape) -> bool:
        """Whether CPU, memory and model fit, which kube-scheduler decides."""
        return (
            self.cpu >= shape.cpu
            and self.memory >= shape.memory
            and (not shape.models or self.spec.model in shape.models)
        )

    def has_gpus(self, shape: Shape) -> bool:
        """Whether the GPUs fit."""
        return not shape.gpus or sum(free >= shape.milli for free in self.free) >= shape.gpus

    def change(self, shape: Shape, gpus: tuple[int, ...], sign: int) -> None:
        """Take (1) or return (-1) what a pod has."""
        self.cpu -= sign * shape.cpu
        self.memory -= sign * shape.memory
        if not shape.gpus:
            return
        taken = sign * shape.milli
        self.free = tuple(free - taken if index in gpus else free for index, free in enumerate(self.free))
        self.kinds[kind_of(shape)] = self.kinds.get(kind_of(shape), 0) + sign


def kind_of(shape: Shape) -> tuple[int, bool]:
    """The number of GPUs, and whether they are shared."""
    return shape.gpus, shape.milli < GPU
