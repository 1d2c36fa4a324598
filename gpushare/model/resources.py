"""CPU and memory: what a node has for pods, and what a pod requests of it.

Here are the two amounts that placement compares. All resources of a pod, for people who ask why it waits, are
in ``overview.requests``.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from gpushare.model.demand import ContainerKind


class Resources(NamedTuple):
    """CPU in thousandths of a core, memory in MiB."""

    cpu: int
    memory: int

    def plus(self, other: "Resources") -> "Resources":
        """The sums."""
        return Resources(self.cpu + other.cpu, self.memory + other.memory)

    def minus(self, other: "Resources") -> "Resources":
        """The differences, which may be negative."""
        return Resources(self.cpu - other.cpu, self.memory - other.memory)

    def at_least(self, other: "Resources") -> "Resources":
        """The larger amount of each."""
        return Resources(max(self.cpu, other.cpu), max(self.memory, other.memory))


NO_RESOURCES: Final = Resources(0, 0)


class Load(NamedTuple):
    """What a pod takes from its node, None while it has none."""

    node: str | None
    requested: Resources


def requested_by(containers: Iterable[tuple[ContainerKind, Resources]]) -> Resources:
    """The request of a pod from its containers, init containers and sidecars first, as declared (KEP-753)."""
    total = peak = NO_RESOURCES
    for kind, own in containers:
        if kind is ContainerKind.INIT:
            peak = peak.at_least(total.plus(own))
        else:
            total = total.plus(own)
    return total.at_least(peak)
