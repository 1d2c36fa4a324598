"""Nodes and pods of the API server with all that the tools and the board read of them."""

from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from gpushare.adapters.kube.wire import (
    NodeAnnotations,
    NodeMeta,
    NodeSpec,
    NodeStatus,
    PodMeta,
    PodSpec,
    PodStatus,
    WireCondition,
    WireNode,
    WirePod,
)
from gpushare.contract import ANN_CORDONED_CARDS, ANN_DEVICE_LIST
from gpushare.errors import InvalidRequest
from gpushare.model.cards import parse_indices
from gpushare.model.quantity import parse_quantity
from gpushare.overview.affinity import Affinity, is_beyond
from gpushare.overview.pod_spec import (
    ClusterContainer,
    PodTotals,
    PodVolume,
    SpreadConstraint,
)

CORDONED: Final = "node.kubernetes.io/unschedulable"
"""The taint of a cordoned node."""


class Taint(Struct):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class PodToleration(Struct):
    """A toleration of a pod. Without a key it tolerates every taint, without an effect all effects.

    The operators ``Gt`` and ``Lt`` of Kubernetes 1.35 compare whole numbers.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether it tolerates the taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        match self.operator:
            case "Exists":
                return True
            case "Gt" | "Lt":
                return bool(self.key) and is_beyond(taint.value, self.value, above=self.operator == "Gt")
            case _:
                return bool(self.key) and self.value == taint.value


class _Annotations(NodeAnnotations, rename={"cordoned": ANN_CORDONED_CARDS, "device_list": ANN_DEVICE_LIST}):
    cordoned: str = ""
    device_list: str = ""


class _NodeMeta(NodeMeta):
    annotations: _Annotations | None = None


class _NodeSpec(NodeSpec):
    taints: list[Taint] | None = None


class _Versions(Struct, rename="camel"):
    kubelet_version: str = ""


class _NodeStatus(NodeStatus, rename="camel"):
    node_info: _Versions = field(default_factory=_Versions)


class ClusterNode(WireNode):
    """A node."""

    metadata: _NodeMeta = field(default_factory=_NodeMeta)
    spec: _NodeSpec = field(default_factory=_NodeSpec)
    status: _NodeStatus = field(default_factory=_NodeStatus)

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.metadata.labels or {}

    @property
    def ready(self) -> bool:
        """Whether its kubelet reports it ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())

    @property
    def cards_text(self) -> str | None:
        """The GPUs that its agent has published."""
        return self.metadata.annotations.cards if self.metadata.annotations else None

    @property
    def closed_by_agent(self) -> str | None:
        """Why its agent takes no new pods; None if it does."""
        return self.metadata.annotations.closed if self.metadata.annotations else None

    @property
    def device_list(self) -> str:
        """How its containers get their GPUs, and why; empty before its agent has said it."""
        return self.metadata.annotations.device_list if self.metadata.annotations else ""

    @property
    def offers(self) -> dict[str, Any]:
        """What pods can get, by resource."""
        return self.status.allocatable or {}

    @property
    def cordoned_cards(self) -> frozenset[int]:
        """The indices of the GPUs that an administrator has cordoned."""
        annotations = self.metadata.annotations
        return parse_indices(annotations.cordoned)[0] if annotations else frozenset()

    def allocatable(self, resource: str) -> int:
        """How much of a resource pods can get; 0 if that cannot be read."""
        return _amount(self.status.allocatable, resource)

    def capacity(self, resource: str) -> int:
        """How much of a resource it has in all; 0 if that cannot be read."""
        return _amount(self.status.capacity, resource)


def _amount(amounts: dict[str, Any] | None, resource: str) -> int:
    try:
        return parse_quantity((amounts or {}).get(resource, 0))
    except InvalidRequest:
        return 0


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


class PodOwner(NamedTuple):
    """The workload of a pod; a pod without a controller is its own."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


def _owner_of(meta: PodMeta) -> PodOwner:
    """Its controller; the Deployment of a ReplicaSet, whose name the Deployment and the hash make."""
    found = next((each for each in meta.owner_references or () if each.controller), None)
    if found is None:
        return PodOwner("Pod", meta.name)
    suffix = f"-{(meta.labels or {}).get('pod-template-hash', '')}"
    if found.kind == "ReplicaSet" and suffix != "-" and found.name.endswith(suffix):
        return PodOwner("Deployment", found.name.removesuffix(suffix))
    return PodOwner(found.kind, found.name)


class ClusterPodSpec(PodSpec, rename="camel"):
    """The spec of a pod."""

    containers: tuple[ClusterContainer, ...] | None = None
    init_containers: tuple[ClusterContainer, ...] | None = None
    resources: PodTotals | None = None
    overhead: dict[str, Any] | None = None
    volumes: list[PodVolume] | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    scheduler_name: str = ""
    scheduling_gates: list[_Gate] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[PodToleration] | None = None
    affinity: Affinity | None = None


class _PodStatus(PodStatus, rename="camel"):
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class ClusterPod(WirePod):
    """A pod."""

    spec: ClusterPodSpec = field(default_factory=ClusterPodSpec)
    status: _PodStatus = field(default_factory=_PodStatus)

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.metadata.labels or {}

    @property
    def scheduler(self) -> str:
        """The scheduler that is to place it."""
        return self.spec.scheduler_name or "default-scheduler"

    @property
    def extended(self) -> bool:
        """Whether it has annotations of a bind by an extender of GPU sharing."""
        annotations = self.metadata.annotations
        return annotations is not None and (annotations.idx or annotations.allocation) is not None

    @property
    def group(self) -> str:
        """The name of its PodGroup; empty without one."""
        return self.spec.scheduling_group.pod_group_name if self.spec.scheduling_group else ""

    def selects(self, node: ClusterNode) -> bool:
        """Whether its selector and its required node affinity admit the node."""
        wanted, affinity = self.spec.node_selector or {}, self.spec.affinity
        selected = all(node.labels.get(key) == value for key, value in wanted.items())
        return selected and (affinity is None or affinity.admits(node.name, node.labels))

    def untolerated(self, node: ClusterNode) -> list[Taint]:
        """The taints that keep it off the node; a cordoned node has one more, of the API server."""
        return [
            taint
            for taint in node.spec.taints or ()
            if taint.effect in ("NoSchedule", "NoExecute")
            and not (node.spec.unschedulable and taint.key == CORDONED)
            and not self.tolerates(taint)
        ]

    def kept_off_by_cordon(self, node: ClusterNode) -> bool:
        """Whether the node is cordoned, and it does not tolerate that."""
        return node.spec.unschedulable and not self.tolerates(Taint(CORDONED, effect="NoSchedule"))

    def tolerates(self, taint: Taint) -> bool:
        """Whether it tolerates the taint."""
        return any(each.tolerates(taint) for each in self.spec.tolerations or ())

    @property
    def claims(self) -> dict[str, bool]:
        """The names of its PersistentVolumeClaims, and whether Kubernetes makes them for the pod."""
        found = {}
        for each in self.spec.volumes or ():
            if each.persistent_volume_claim:
                found[each.persistent_volume_claim.claim_name] = False
            elif each.ephemeral is not None:
                found[f"{self.metadata.name}-{each.name}"] = True
        return found

    @property
    def owner(self) -> PodOwner:
        """The workload that it belongs to."""
        return _owner_of(self.metadata)

    @property
    def whole_gpus(self) -> int:
        """The number of whole GPUs that it requests. Raises InvalidRequest."""
        limits = (each.resources.limits for each in self.spec.containers or () if each.resources)
        return sum(parse_quantity(each.whole) for each in limits if each and each.whole is not None)

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
