"""The CPU and memory that the pods of one node request: sums, kept while pods come and go."""

from typing import Final, NamedTuple

from gpushare.model.resources import NO_RESOURCES, Resources


class NodeLoad(NamedTuple):
    """The requests of ``pods`` pods. Those of ``unknown`` pods are not in the sum."""

    requested: Resources
    pods: int
    unknown: int

    def plus(self, requested: Resources | None) -> "NodeLoad":
        """With one more pod, whose requests may be unknown."""
        if requested is None:
            return NodeLoad(self.requested, self.pods + 1, self.unknown + 1)
        return NodeLoad(self.requested.plus(requested), self.pods + 1, self.unknown)

    def minus(self, requested: Resources | None) -> "NodeLoad":
        """Without a pod that was added."""
        if requested is None:
            return NodeLoad(self.requested, self.pods - 1, self.unknown - 1)
        return NodeLoad(self.requested.minus(requested), self.pods - 1, self.unknown)


NO_LOAD: Final = NodeLoad(NO_RESOURCES, 0, 0)
