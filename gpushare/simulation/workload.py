"""Nodes and pods of a simulation. The largest GPU has 1000 units, the thousandths of a GPU in the traces."""

from dataclasses import dataclass
from typing import Final

GPU: Final = 1000
"""Units of the largest GPU."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """An empty node: CPU in thousandths of a core, memory in MiB, and GPUs of one model.

    Each GPU has ``milli`` units.
    """

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str
    milli: int = GPU

    @property
    def units(self) -> int:
        """Units of all GPUs."""
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod requests: ``milli`` units on each of ``gpus`` GPUs. No ``models``: any will do."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: frozenset[str] = frozenset()

    @property
    def units(self) -> int:
        """Units on all GPUs."""
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True)
class Workload:
    """Nodes, and the requests of the pods in the order of the input."""

    nodes: tuple[NodeSpec, ...]
    pods: tuple[Shape, ...]

    @property
    def capacity(self) -> int:
        """Units of all GPUs."""
        return sum(node.units for node in self.nodes)
