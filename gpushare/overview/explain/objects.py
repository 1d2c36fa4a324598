"""The parts of pods and nodes that decide about a pod besides GPU units, and what a pod's status reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from msgspec import Struct, field

from gpushare.adapters.kube.wire import Condition, LabelledMeta
from gpushare.model.objects import Pod
from gpushare.overview.explain.affinity import Affinity
from gpushare.scheduling.book import Book


class Taint(Struct):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(Struct):
    """A toleration of a pod. Without a key it tolerates every taint, without an effect all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether it tolerates the taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


class _NodeSpec(Struct):
    taints: list[Taint] | None = None
    unschedulable: bool = False


class _NodeStatus(Struct):
    capacity: dict[str, Any] | None = None
    allocatable: dict[str, Any] | None = None


class ExplainedNode(Struct):
    """A node."""

    metadata: LabelledMeta = field(default_factory=LabelledMeta)
    spec: _NodeSpec = field(default_factory=_NodeSpec)
    status: _NodeStatus = field(default_factory=_NodeStatus)


class _Gate(Struct):
    name: str = ""


class Reason(Struct, rename="camel"):
    """Why a container waits, or how it has ended."""

    reason: str = ""
    message: str = ""
    exit_code: int = 0

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.reason, self.message)))


class _State(Struct):
    waiting: Reason | None = None
    terminated: Reason | None = None


class ContainerStatus(Struct):
    """The status of a container."""

    name: str = ""
    state: _State = field(default_factory=_State)


class _PodSpec(Struct, rename="camel"):
    scheduler_name: str = ""
    node_name: str | None = None
    scheduling_gates: list[_Gate] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None
    affinity: Affinity | None = None


class _PodStatus(Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[WireCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class ExplainedPod(Struct):
    """The pod that is explained."""

    metadata: LabelledMeta = field(default_factory=LabelledMeta)
    spec: _PodSpec = field(default_factory=_PodSpec)
    status: _PodStatus = field(default_factory=_PodStatus)

    @property
    def scheduler_message(self) -> str:
        """The last message of the scheduler about a pod that it could not place; empty without one."""
        return next((c.message for c in self._scheduled if c.status == "False"), "")

    @property
    def seen(self) -> bool:
        """Whether a scheduler has reported on it."""
        return any(True for _ in self._scheduled)

    @property
    def _scheduled(self) -> list[WireCondition]:
        return [each for each in self.status.conditions or () if each.type == "PodScheduled"]

    @property
    def waiting(self) -> list[str]:
        """Why its containers do not run: ``container main: ImagePullBackOff: …``."""
        statuses = [*(self.status.init_container_statuses or ()), *(self.status.container_statuses or ())]
        found = [(each.name, each.state.waiting) for each in statuses if each.state.waiting]
        return [f"container {name}: {reason}" for name, reason in found if reason and reason.reason]


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The pod and the cluster at one moment. ``notes`` are limits of what could be read.

    ``books`` is None if nodes or pods may not be listed.
    """

    pod: Pod
    details: ExplainedPod
    books: Mapping[str, Book] | None = dataclass_field(default_factory=dict)
    nodes: Mapping[str, ExplainedNode] = dataclass_field(default_factory=dict)
    notes: tuple[str, ...] = ()


def obstacles(pod: ExplainedPod, node: ExplainedNode) -> list[str]:
    """Why the scheduler would not consider the node for the pod, apart from resources: the usual causes."""
    labels = node.metadata.labels or {}
    found = ["the node is cordoned"] if node.spec.unschedulable else []
    found += [
        f"the node has no label {key}={value}, which the pod selects"
        for key, value in (pod.spec.node_selector or {}).items()
        if labels.get(key) != value
    ]
    if pod.spec.affinity and not pod.spec.affinity.admits(node.metadata.name, labels):
        found.append("the node does not meet the node affinity of the pod")
    tolerations = pod.spec.tolerations or []
    found += [
        f"the pod does not tolerate the taint {taint}"
        for taint in node.spec.taints or ()
        if taint.effect in ("NoSchedule", "NoExecute")
        # The API server adds this taint to a cordoned node.
        and not (node.spec.unschedulable and taint.key == "node.kubernetes.io/unschedulable")
        and not any(each.tolerates(taint) for each in tolerations)
    ]
    return found
