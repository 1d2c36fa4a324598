"""The pods and the node object as the daemons of that node see them."""

from collections.abc import Iterable, Mapping
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
from gpushare.model.conflicts import Conflict
from gpushare.model.demand import Demand
from gpushare.model.objects import Pod


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod of this node that requests GPU units.

    ``bound_ns`` is the time of its bind in nanoseconds, 0 if its annotations do not contain it; ``served`` is
    whether its annotations mark it as assigned. ``conflicts`` are those of its containers by name, without
    containers that have none; ``running`` are the containers that run now. ``static_uid`` is the UID of a
    static pod in the kubelet, which differs from the UID of its object in the API.
    """

    pod: Pod
    bound_ns: int = 0
    served: bool = False
    conflicts: Mapping[str, tuple[Conflict, ...]] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
    static_uid: str | None = None

    @property
    def uid(self) -> str:
        """The UID in the kubelet."""
        return self.static_uid or self.pod.uid

    @property
    def demand(self) -> Demand | None:
        """Its demand; None if that is malformed."""
        return self.pod.demand if isinstance(self.pod.demand, Demand) else None

    @property
    def units(self) -> int:
        """The units of its demand; 0 if that is malformed."""
        return self.demand.mem if self.demand else 0

    @property
    def claim(self) -> Shares | None:
        """The GPUs in its annotations."""
        return self.pod.claim


@dataclass(frozen=True, slots=True)
class LocalPod:
    """Any pod of this node. ``uid`` is its UID in the kubelet; ``containers`` are names by container ID.

    ``gpu_pod`` is the same pod as a GPU pod, None if it requests no GPU units. ``mirror`` is whether ``uid``
    is that of a static pod, according to an annotation.
    """

    uid: str
    namespace: str
    name: str
    finished: bool = False
    containers: Mapping[str, str] = field(default_factory=dict)
    gpu_pod: GpuPod | None = None
    mirror: bool = False

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def by_uid(local_pods: Iterable[LocalPod]) -> dict[str, LocalPod]:
    """Pods by their UID in the kubelet.

    Any user may create a pod with the annotation of a mirror pod: it never replaces the pod with that UID. Of
    several mirror pods of one UID, that with the most units counts.
    """
    return {each.uid: each for each in sorted(local_pods, key=_precedence)}


def _precedence(local_pod: LocalPod) -> tuple[bool, int]:
    return not local_pod.mirror, local_pod.gpu_pod.units if local_pod.gpu_pod else 0


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """The container of a process: the pod's UID in the kubelet, and the container ID, empty if unknown."""

    pod_uid: str
    container_id: str = ""


RESOURCES: Final = frozenset(
    {RESOURCE_MEM, RESOURCE_COUNT, RESOURCE_CORE, RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU}
)
"""The resources that ``LocalNode`` keeps of ``capacity`` and ``allocatable``."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node; ``effect`` as the API writes it."""

    key: str
    effect: str


@dataclass(frozen=True, slots=True)
class LocalNode:
    """The relevant part of a node's object. A resource that the node does not have is absent, not 0.

    ``taints`` are all of them, in the order of the object. ``kubelet_version`` is the kubelet's version as it
    reports it (``v1.36.3``), ``runtime_version`` that of the container runtime (``containerd://2.1.4``); both
    are empty if unknown.
    """

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    kubelet_version: str = ""
    runtime_version: str = ""
    taints: tuple[Taint, ...] = ()
