"""Pods as the daemons of their node see them: who they are, what they ask for, what stands in its way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.contract import (
    RESOURCE_CORE,
    RESOURCE_COUNT,
    RESOURCE_MEM,
    RESOURCE_TIME_SLICED_GPU,
    RESOURCE_WHOLE_GPU,
)
from gpushare.model.annotations import Shares
from gpushare.model.demand import Demand
from gpushare.model.objects import Pod


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod of this node that asks for units of a card.

    ``bound_ns`` is when it was bound, 0 where its annotations do not say; ``served`` whether they call
    it served already; ``picks_devices`` names the containers that choose their devices themselves by
    environment, ``running`` those that run now. ``static_uid`` is the UID under which the kubelet runs
    a static pod, whose object in the API has another one.
    """

    pod: Pod
    bound_ns: int = 0
    served: bool = False
    picks_devices: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    static_uid: str | None = None

    @property
    def uid(self) -> str:
        """The UID that the kubelet knows."""
        return self.static_uid or self.pod.uid

    @property
    def demand(self) -> Demand | None:
        """What it asks for, or None where that cannot be understood."""
        return self.pod.demand if isinstance(self.pod.demand, Demand) else None

    @property
    def claim(self) -> Shares | None:
        """The cards that its annotations name."""
        return self.pod.claim


@dataclass(frozen=True, slots=True)
class NodePod:
    """Any pod of this node. ``uid`` is the kubelet's; ``containers`` are names by container id.

    ``tenant`` is the pod as one that asks for units of a card, None where it asks for none.
    """

    uid: str
    namespace: str
    name: str
    finished: bool = False
    containers: Mapping[str, str] = field(default_factory=dict)
    gpu_pod: GpuPod | None = None

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


RESOURCES: Final = frozenset(
    {RESOURCE_MEM, RESOURCE_COUNT, RESOURCE_CORE, RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU}
)
"""What ``capacity`` and ``allocatable`` are cut down to."""


@dataclass(frozen=True, slots=True)
class OwnNode:
    """A node's object, trimmed. A resource that the node does not show is absent, not 0."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
