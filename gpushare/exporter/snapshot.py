"""Everything that was read in one round, as one value. A source that did not answer is None."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.adapters.cgroups import ContainerRef
from gpushare.exporter.regions import IsolationState
from gpushare.model.devices import ContainerDevices
from gpushare.model.objects import Node
from gpushare.model.own_node import NodePod
from gpushare.model.readings import Readings

NVML: Final = "nvml"
CGROUPS: Final = "cgroups"
POD_RESOURCES: Final = "pod-resources"
PODS: Final = "pods"
NODE: Final = "node"
ISOLATION: Final = "isolation"
SOURCES: Final = (NVML, CGROUPS, POD_RESOURCES, PODS, NODE, ISOLATION)
"""What a snapshot is made of, as metrics and logs name it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One round on a node.

    ``readings``: cards and their processes. ``homes``: where those processes run, None for one in no pod.
    ``devices``: what the kubelet gave to whom. ``residents``: the node's pods. ``node``: the node's own
    annotations. ``isolation``: which containers are held, and what their regions say. ``took_s``: how long
    each source took, by name. ``at``: when, in seconds since 1970.
    """

    node_name: str
    readings: Readings | None = None
    containers_by_pid: Mapping[int, ContainerRef | None] | None = None
    devices: tuple[ContainerDevices, ...] | None = None
    node_pods: tuple[NodePod, ...] | None = None
    node: Node | None = None
    isolation: IsolationState | None = None
    took_s: Mapping[str, float] = field(default_factory=dict)
    at: float | None = None
