"""All readings of one round as one value. Sources that failed are None."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.exporter.regions import IsolationState
from gpushare.model.devices import ContainerDevices
from gpushare.model.local_node import ContainerRef, LocalPod
from gpushare.model.objects import Node
from gpushare.model.readings import CardReading, Readings

NVML: Final = "nvml"
CGROUPS: Final = "cgroups"
POD_RESOURCES: Final = "pod-resources"
PODS: Final = "pods"
NODE: Final = "node"
ISOLATION: Final = "isolation"
CPUS: Final = "cpus"
SOURCES: Final = (NVML, CGROUPS, POD_RESOURCES, PODS, NODE, ISOLATION, CPUS)
"""Names of the sources in metrics and logs."""


@dataclass(frozen=True, slots=True)
class CpuState:
    """The CPUs that each process on a GPU may use, and those beside each GPU by UUID, where known."""

    by_pid: Mapping[int, frozenset[int]] = field(default_factory=dict)
    beside: Mapping[str, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """One round on a node.

    ``readings``: GPUs and their processes. ``containers_by_pid``: the container of each process, None outside
    pods. ``devices``: the kubelet's device allocations. ``local_pods``: the node's pods. ``node``: the node's
    annotations. ``isolation``: containers with limits and their regions. ``cpus``: CPUs of processes and
    GPUs. ``took_s``: duration of each source by name. ``failures``: reads of each source without a result
    since the start. ``at``: time of the snapshot in seconds since 1970.
    """

    node_name: str
    readings: Readings | None = None
    containers_by_pid: Mapping[int, ContainerRef | None] | None = None
    devices: tuple[ContainerDevices, ...] | None = None
    local_pods: tuple[LocalPod, ...] | None = None
    node: Node | None = None
    isolation: IsolationState | None = None
    cpus: CpuState | None = None
    took_s: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    at: float | None = None

    @property
    def cards(self) -> tuple[CardReading, ...]:
        """The GPUs that were read."""
        return self.readings.cards if self.readings else ()
