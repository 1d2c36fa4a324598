"""Everything that the checks know: one reading of a cluster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from msgspec import Struct

from gpushare.adapters.kube.wire import LabelledMeta, WireCondition, WireConfigMap
from gpushare.contract import LABEL_CGPU, LABEL_GPUSHARE, LABEL_MODE, RESOURCE_MEM
from gpushare.model.modes import SHARING, mode_of
from gpushare.model.objects import Pod
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import MetricSample
from gpushare.overview.objects import ClusterNode, ClusterPod
from gpushare.overview.system_pods import Lease, SystemPod
from gpushare.scheduling.book import Book

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read: the reason, and the right that is missing, empty if none is."""

    reason: str
    right: str = ""
    absent: bool = False
    """Whether it does not exist."""


class NotReadError(Exception):
    """A check needs what could not be read."""

    def __init__(self, found: Unread) -> None:
        super().__init__(found.reason)
        self.found = found


def required(found: T | Unread) -> T:
    """What was read. Raises NotReadError, which makes the check unknown."""
    if isinstance(found, Unread):
        raise NotReadError(found)
    return found


def if_read(found: Sequence[T] | Unread) -> Sequence[T]:
    """What was read; nothing if it was not."""
    return () if isinstance(found, Unread) else found


class _WorkloadSpec(Struct):
    replicas: int = 1


class Workload(Struct):
    """A Deployment."""

    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)


class _Port(Struct, rename="camel"):
    node_port: int | None = None


class _ServiceSpec(Struct):
    ports: list[_Port] | None = None


class Service(Struct):
    """A Service."""

    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    spec: _ServiceSpec = msgspec.field(default_factory=_ServiceSpec)


class _Conditions(Struct):
    conditions: list[WireCondition] | None = None


class ApiService(Struct):
    """An APIService."""

    metadata: LabelledMeta = msgspec.field(default_factory=LabelledMeta)
    status: _Conditions = msgspec.field(default_factory=_Conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """One reading. ``now_s`` is its time in seconds since 1970.

    ``pages`` are the metrics of our pods by pod name, ``cgroups`` the cgroup version by node,
    ``cpu_managers`` the policy of the kubelet's CPU manager by node, ``reviews`` whether a service account
    has a right, by account and right.
    """

    now_s: float
    version: str | Unread
    nodes: Sequence[ClusterNode] | Unread
    books: Mapping[str, Book] | Unread
    pods: Sequence[tuple[Pod, ClusterPod]] | Unread
    system_pods: Sequence[SystemPod] | Unread
    deployments: Sequence[Workload] | Unread
    services: Sequence[Service] | Unread
    config_maps: Sequence[WireConfigMap] | Unread
    lease: Lease | Unread
    policies: frozenset[str] | Unread
    api_services: Sequence[ApiService] | Unread
    pages: Mapping[str, Sequence[MetricSample] | Unread] = field(default_factory=dict)
    cgroups: Mapping[str, int | Unread] = field(default_factory=dict)
    cpu_managers: Mapping[str, str | Unread] = field(default_factory=dict)
    reviews: Mapping[tuple[str, str], bool | Unread] = field(default_factory=dict)

    def pods_of(self, component: str) -> list[SystemPod]:
        """Our pods of a component; empty if pods could not be read."""
        return [pod for pod in if_read(self.system_pods) if pod.component == component]

    def values(self, component: str, metric: Metric) -> Iterator[tuple[SystemPod, MetricSample]]:
        """The samples of a metric from all pods of a component that answered."""
        for pod in self.pods_of(component):
            page = self.pages.get(pod.name)
            for sample in () if page is None or isinstance(page, Unread) else page:
                if sample.metric == str(metric):
                    yield pod, sample

    def require_page(self, component: str) -> None:
        """Raises NotReadError unless the metrics of at least one pod of the component are known."""
        if problem := self.unread_page(component):
            raise NotReadError(problem)

    def unread_page(self, component: str) -> Unread | None:
        """Why the metrics of a component are unknown; None if at least one pod has answered."""
        if isinstance(self.system_pods, Unread):
            return self.system_pods
        pages = [self.pages.get(pod.name) for pod in self.pods_of(component)]
        if any(page is not None and not isinstance(page, Unread) for page in pages):
            return None
        return next(
            (page for page in pages if isinstance(page, Unread)), Unread(f"no pod of {component} runs")
        )

    def unread_replica(self, component: str) -> Unread | None:
        """Why the metrics of a ready pod of the component are unknown; None if all have answered."""
        pages = (self.pages.get(pod.name) for pod in self.pods_of(component) if pod.ready)
        return next((page for page in pages if isinstance(page, Unread)), None)

    def config_map(self, name: str) -> Mapping[str, str]:
        """The data of a ConfigMap of kube-system; empty without it, and if it could not be read."""
        found = (each.data or {} for each in if_read(self.config_maps) if each.metadata.name == name)
        return next(found, {})

    def labels_of(self, node: str | None) -> Mapping[str, str] | None:
        """The labels of a node; None if they cannot be read."""
        nodes = if_read(self.nodes)
        return next((each.labels for each in nodes if each.name == node), None)

    @property
    def pending(self) -> list[Pod]:
        """The pods that request units and have no node; empty if pods could not be read."""
        pods = (pod for pod, _ in if_read(self.pods))
        return [pod for pod in pods if not (pod.node or pod.finished or pod.terminating)]

    @property
    def sharing(self) -> list[ClusterNode]:
        """The nodes that offer units, and those that a label selects for it."""
        return [node for node in if_read(self.nodes) if is_sharing(node)]


def is_sharing(node: ClusterNode) -> bool:
    """Whether a node offers units, or its labels select it for sharing."""
    if node.allocatable(RESOURCE_MEM):
        return True
    labels = node.labels
    _, closed = mode_of(labels)
    chosen = labels.get(LABEL_GPUSHARE) == "true" or labels.get(LABEL_CGPU) == "true"
    return closed is None and (chosen or labels.get(LABEL_MODE) in set(SHARING))
