"""The codec of API objects: lists, watches, pods and nodes, and their conversion to the model.

Only fields that are read are decoded; msgspec skips the rest without building it. Wrong types are rejected
with the path of the field.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from gpushare import contract
from gpushare.errors import InvalidRequest
from gpushare.model.annotations import claim_of
from gpushare.model.demand import ContainerDemand, ContainerKind, Demand, Malformed, demand_of
from gpushare.model.gpu_choice import gpu_choice, unusable_for
from gpushare.model.modes import SHARING, Mode
from gpushare.model.objects import Node, Pod, node_of
from gpushare.model.quantity import parse_quantity
from gpushare.scheduling.placement import POLICIES

T = TypeVar("T")

_PATIENT: Final = ("DaemonSet", "Job")
"""Kinds of controllers that wait longer after each pod that failed; others replace it at once."""
_NOT_ADMITTED: Final = ("UnexpectedAdmissionError", "TopologyAffinityError")
_OUT_OF: Final = "OutOf"
"""Reasons of a kubelet that does not admit a pod: a device plugin, the topology manager, ``OutOfcpu``."""
_MESSAGE: Final = 500
"""Characters that are kept of such a message."""
_GATED: Final = "SchedulingGated"
"""The API server writes this reason, and the scheduler another one once it has tried to place the pod."""


class ListMeta(Struct, rename="camel"):
    """Metadata of a list page."""

    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class ListPage(Struct, Generic[T]):
    """One page of a list."""

    items: list[T] | None = None
    metadata: ListMeta = field(default_factory=ListMeta)


class WatchEvent(Struct):
    """One line of a watch; ``object`` is decoded once the type is known."""

    type: str
    object: msgspec.Raw


class BareMeta(Struct, rename="camel"):
    """Metadata common to all objects."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Bare(Struct):
    """An object reduced to its metadata; also the Status of a failed watch."""

    metadata: BareMeta = field(default_factory=BareMeta)
    code: int = 0
    message: str = ""


class WireCondition(Struct):
    """One condition of a pod's or a node's status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class WireConfigMap(Struct):
    """A ConfigMap."""

    metadata: BareMeta = field(default_factory=BareMeta)
    data: dict[str, str] | None = None


# --- nodes --------------------------------------------------------------------------------------


class NodeAnnotations(
    Struct,
    rename={
        "cards": contract.ANN_CARDS,
        "assigned": contract.ANN_ASSIGNED_NODE,
        "closed": contract.ANN_CLOSED,
        "opened": contract.ANN_OPENED,
        "multi_user": contract.ANN_MPS_MULTI_USER,
    },
):
    """What agents and administrators write on a node."""

    cards: str | None = None
    assigned: str | None = None
    closed: str | None = None
    opened: str | None = None
    multi_user: str | None = None


class LabelledMeta(BareMeta, rename="camel"):
    """Metadata with labels and annotations."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class NodeMeta(BareMeta, rename="camel"):
    """A node's metadata."""

    annotations: NodeAnnotations | None = None
    labels: dict[str, str] | None = None


class _Address(Struct):
    type: str = ""
    address: str = ""


class NodeStatus(Struct):
    """A node's status."""

    capacity: dict[str, Any] | None = None
    allocatable: dict[str, Any] | None = None
    addresses: list[_Address] | None = None
    conditions: list[WireCondition] | None = None


class NodeSpec(Struct):
    """A node's spec."""

    unschedulable: bool = False


class WireNode(Struct):
    """A node with the fields that are read."""

    metadata: NodeMeta = field(default_factory=NodeMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


def core_node(wire: WireNode) -> Node:
    """Convert to the model."""
    annotations = wire.metadata.annotations or NodeAnnotations()
    node = node_of(
        wire.metadata.name,
        capacity=wire.status.capacity or {},
        labels=wire.metadata.labels or {},
        cards_text=annotations.cards,
        assigned_text=annotations.assigned,
        multi_user=annotations.multi_user == "true",
        allocatable=wire.status.allocatable or {},
    )
    away = "cordoned" if wire.spec.unschedulable else _not_ready(wire.status)
    closed = annotations.closed or node.closed
    return replace(node, away=away, closed=closed, opened=annotations.opened or "")


def _not_ready(status: NodeStatus) -> str | None:
    """Set if the kubelet has reported otherwise than ready, or has stopped to report."""
    ready = next((each.status for each in status.conditions or () if each.type == "Ready"), "True")
    return None if ready == "True" else "not ready"


# --- pods ---------------------------------------------------------------------------------------


class PodAnnotations(
    Struct,
    rename={
        "idx": contract.ANN_IDX,
        "pod": contract.ANN_POD,
        "allocation": contract.ANN_ALLOCATION,
        "core": contract.ANN_CORE_ALLOCATION,
        "seal": contract.ANN_SEAL,
        "mode": contract.ANN_MODE,
        "placement": contract.ANN_PLACEMENT,
        "use_models": contract.ANN_USE_MODELS,
        "avoid_models": contract.ANN_AVOID_MODELS,
        "use_uuids": contract.ANN_USE_UUIDS,
        "avoid_uuids": contract.ANN_AVOID_UUIDS,
        "same_gpu": contract.ANN_SAME_GPU,
        "other_gpu": contract.ANN_OTHER_GPU,
        "safe_to_evict": contract.ANN_SAFE_TO_EVICT,
        "safe_for_autoscaler": contract.ANN_SAFE_TO_EVICT_AUTOSCALER,
    },
):
    """Placement annotations, which GPUs the pod may use, and whether it may be evicted."""

    idx: str | None = None
    pod: str | None = None
    allocation: str | None = None
    core: str | None = None
    seal: str | None = None
    mode: str | None = None
    placement: str | None = None
    use_models: str | None = None
    avoid_models: str | None = None
    use_uuids: str | None = None
    avoid_uuids: str | None = None
    same_gpu: str | None = None
    other_gpu: str | None = None
    safe_to_evict: str | None = None
    safe_for_autoscaler: str | None = None


class PodOwner(Struct):
    """An owner of a pod."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class PodMeta(BareMeta, rename="camel"):
    """A pod's metadata."""

    annotations: PodAnnotations | None = None
    labels: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[PodOwner] | None = None


class _Limits(
    Struct,
    rename={
        "mem": contract.RESOURCE_MEM,
        "core": contract.RESOURCE_CORE,
        "whole": contract.RESOURCE_WHOLE_GPU,
        "time_sliced": contract.RESOURCE_TIME_SLICED_GPU,
    },
):
    mem: str | int | None = None
    core: str | int | None = None
    whole: Any = None
    time_sliced: Any = None


class PodResources(Struct):
    """The limits of a container, of which only ours and those for whole GPUs are read."""

    limits: _Limits | None = None


class _Security(Struct, rename="camel"):
    run_as_user: int | None = None


class PodContainer(Struct, rename="camel"):
    """A container of a pod spec."""

    name: str = ""
    restart_policy: str | None = None
    resources: PodResources | None = None
    security_context: _Security | None = None


class SchedulingGroup(Struct, rename="camel"):
    """The PodGroup of a pod, since Kubernetes 1.36."""

    pod_group_name: str = ""


class PodSpec(Struct, rename="camel"):
    """A pod's spec."""

    node_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    containers: tuple[PodContainer, ...] | None = None
    init_containers: tuple[PodContainer, ...] | None = None
    security_context: _Security | None = None
    host_users: bool | None = None
    scheduling_gates: list[Any] | None = None
    scheduling_group: SchedulingGroup | None = None


class PodStatus(Struct, rename="camel"):
    """A pod's status."""

    phase: str = ""
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[WireCondition] | None = None


class WirePod(Struct):
    """A pod with the fields that are read."""

    metadata: PodMeta = field(default_factory=PodMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


def pod_of(wire: WirePod) -> Pod | None:
    """Convert to the model; None for a pod that requests none of our resources."""
    demand = _demand(wire)
    if demand is None:
        return None
    meta, spec, status = wire.metadata, wire.spec, wire.status
    claim = _claim(meta.annotations, demand) if spec.node_name else None
    owner = controller_of(meta)
    return Pod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        demand=demand,
        node=spec.node_name or None,
        finished=status.phase in ("Succeeded", "Failed"),
        terminating=meta.deletion_timestamp is not None,
        priority=spec.priority or 0,
        nominated=status.nominated_node_name or None,
        claim=claim,
        placement=meta.annotations.placement if meta.annotations else None,
        unschedulable=_unschedulable(status),
        seal=meta.annotations.seal if meta.annotations else None,
        created=meta.creation_timestamp or "",
        mode=_mode(meta.annotations) if claim else None,
        labels=_shared(tuple((meta.labels or {}).items())),
        gated=bool(spec.scheduling_gates),
        owner=_shared_text(f"{owner.kind}/{owner.name}") if owner else "",
        workload=_shared_text(owner.uid) if owner and owner.kind not in _PATIENT else "",
        rejected=_rejected(status),
        rejected_at=status.start_time or "" if _rejected(status) is not None else "",
        preempts=spec.preemption_policy != "Never",
        safe_to_evict=_safe_to_evict(meta.annotations),
        group=_shared_text(spec.scheduling_group.pod_group_name) if spec.scheduling_group else "",
    )


def _safe_to_evict(annotations: PodAnnotations | None) -> bool | None:
    """What the annotations say; other values than true and false say nothing."""
    said = (annotations.safe_to_evict, annotations.safe_for_autoscaler) if annotations else ()
    return next((text == "true" for text in said if text in ("true", "false")), None)


def controller_of(meta: PodMeta) -> PodOwner | None:
    """The owner that replaces the pod; None without one."""
    return next((each for each in meta.owner_references or () if each.controller), None)


def _rejected(status: PodStatus) -> str | None:
    """The kubelet's message about a pod that it did not admit. It was then never started."""
    reason = status.reason or ""
    if status.phase == "Failed" and (reason in _NOT_ADMITTED or reason.startswith(_OUT_OF)):
        return (status.message or reason)[:_MESSAGE]
    return None


@lru_cache(maxsize=10_000)
def _shared_text(text: str) -> str:
    """Return one object for equal texts: the pods of a controller have the same."""
    return text


@lru_cache(maxsize=10_000)
def _shared(labels: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return one object for equal labels: the pods of a controller have the same."""
    return labels


def any_pod_of(wire: WirePod) -> Pod:
    """Convert any pod to the model; ``Pod.managed`` is False if it requests none of our resources."""
    meta = wire.metadata
    unmanaged = Pod(meta.uid, meta.namespace, meta.name, demand_of(()), node=wire.spec.node_name or None)
    return pod_of(wire) or unmanaged


def _demand(wire: WirePod) -> Demand | Malformed | None:
    spec = wire.spec
    if not any(_wants(c) for c in (*(spec.containers or ()), *(spec.init_containers or ()))):
        return None
    try:
        containers = [
            *(
                _container(
                    spec, c, ContainerKind.SIDECAR if c.restart_policy == "Always" else ContainerKind.INIT
                )
                for c in spec.init_containers or ()
            ),
            *(_container(spec, c, ContainerKind.MAIN) for c in spec.containers or ()),
        ]
    except InvalidRequest as error:
        return Malformed(str(error))
    demand = demand_of(containers, (wire.metadata.labels or {}).get(contract.LABEL_CARDS_PER_POD))
    placement = wire.metadata.annotations.placement if wire.metadata.annotations else None
    if isinstance(demand, Demand) and placement is not None and placement not in POLICIES:
        problem = f"annotation {contract.ANN_PLACEMENT}={placement!r} is not one of {', '.join(POLICIES)}"
        return Malformed(problem, demand)
    return _with_gpus(demand, wire.metadata) if isinstance(demand, Demand) else demand


def _with_gpus(demand: Demand, meta: PodMeta) -> Demand | Malformed:
    """The demand with what the annotations say about GPUs."""
    said = meta.annotations
    values = (
        (said.use_models, said.avoid_models, said.use_uuids, said.avoid_uuids, said.same_gpu, said.other_gpu)
        if said
        else ()
    )
    pairs = zip(contract.CHOICE_ANNOTATIONS, values, strict=False)
    given = tuple((key, value) for key, value in pairs if value is not None)
    if not given:
        return demand
    try:
        choice = gpu_choice(given, meta.namespace)
    except InvalidRequest as error:
        return Malformed(str(error), demand)
    labels = tuple((meta.labels or {}).items())
    problem = unusable_for(choice, f"{meta.namespace}/{meta.name}", labels, demand.cards)
    return Malformed(problem, demand) if problem else replace(demand, gpus=choice)


def _wants(container: PodContainer) -> bool:
    limits = container.resources and container.resources.limits
    return bool(limits) and (limits.mem is not None or limits.core is not None)  # type: ignore[union-attr]


def _container(spec: PodSpec, container: PodContainer, kind: ContainerKind) -> ContainerDemand:
    limits = (container.resources and container.resources.limits) or _Limits()
    try:
        mem, core = (parse_quantity(0 if value is None else value) for value in (limits.mem, limits.core))
    except InvalidRequest as error:
        raise InvalidRequest(f"{kind} {container.name}: {error}") from error
    whole = any(value not in (None, 0, "0") for value in (limits.whole, limits.time_sliced))
    return ContainerDemand(container.name, kind, mem, core, _user(spec, container), whole)


def _user(spec: PodSpec, container: PodContainer) -> int | None:
    """Return the container's UID on the node; None if unset or the kubelet chooses it (``hostUsers``)."""
    if spec.host_users is False:
        return None
    for security in (container.security_context, spec.security_context):
        if security and security.run_as_user is not None:
            return security.run_as_user
    return None


def _claim(annotations: PodAnnotations | None, demand: Demand | Malformed) -> Any:
    if annotations is None or isinstance(demand, Malformed):
        return None
    texts = {
        contract.ANN_IDX: annotations.idx,
        contract.ANN_POD: annotations.pod,
        contract.ANN_ALLOCATION: annotations.allocation,
        contract.ANN_CORE_ALLOCATION: annotations.core,
    }
    return claim_of({key: text for key, text in texts.items() if text is not None}, demand)


def _mode(annotations: PodAnnotations | None) -> Mode | None:
    text = annotations and annotations.mode
    return next((mode for mode in SHARING if mode == text), None)


def _unschedulable(status: PodStatus) -> str | None:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return None if condition.reason == _GATED else condition.message
    return None
