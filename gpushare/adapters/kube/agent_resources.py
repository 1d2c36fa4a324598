"""Resources that the daemons of one node watch: its pods, and the node itself.

The kubelet's ``/pods`` list has the same JSON and is decoded here too.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from gpushare.adapters.kube.decoding import decode
from gpushare.adapters.kube.watch import Resource
from gpushare.adapters.kube.wire import (
    LabelledMeta,
    ListPage,
    PodAnnotations,
    PodContainer,
    PodMeta,
    PodSpec,
    PodStatus,
    WirePod,
    pod_of,
)
from gpushare.contract import ANN_ASSIGNED, ANN_ASSUME_TIME, MIRROR_ANNOTATION
from gpushare.errors import InvalidRequest, KubeletError
from gpushare.model.conflicts import Conflict, Declared, conflicts_of
from gpushare.model.local_node import RESOURCES, GpuPod, LocalNode, LocalPod, Taint
from gpushare.model.quantity import parse_quantity

_MAX_NS_DIGITS: Final = 19


class _Annotations(
    PodAnnotations,
    rename={"assume_time": ANN_ASSUME_TIME, "assigned": ANN_ASSIGNED, "mirror": MIRROR_ANNOTATION},
):
    assume_time: str | None = None
    assigned: str | None = None
    mirror: str | None = None


class _AgentPodMeta(PodMeta):
    annotations: _Annotations | None = None


class _Env(Struct):
    name: str = ""
    value: str | None = None


class _VolumeMount(Struct, rename="camel"):
    mount_path: str = ""


class _AgentContainer(PodContainer):
    env: list[_Env] | None = None
    volume_mounts: list[_VolumeMount] | None = None


class _AgentPodSpec(PodSpec):
    containers: tuple[_AgentContainer, ...] | None = None
    init_containers: tuple[_AgentContainer, ...] | None = None


class _ContainerState(Struct):
    running: dict[str, Any] | None = None


class _ContainerStatus(Struct, rename="camel"):
    name: str = ""
    state: _ContainerState | None = None
    container_id: str | None = field(default=None, name="containerID")


class _AgentPodStatus(PodStatus, rename="camel"):
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None
    ephemeral_container_statuses: tuple[_ContainerStatus, ...] | None = None


class WireLocalPod(WirePod):
    """A pod with the additional fields that the daemons of its node read."""

    metadata: _AgentPodMeta = field(default_factory=_AgentPodMeta)
    spec: _AgentPodSpec = field(default_factory=_AgentPodSpec)
    status: _AgentPodStatus = field(default_factory=_AgentPodStatus)


class _NodeInfo(Struct, rename="camel"):
    kubelet_version: str | None = None
    container_runtime_version: str | None = None


class _LocalNodeStatus(Struct, rename="camel"):
    capacity: dict[str, Any] | None = None
    allocatable: dict[str, Any] | None = None
    node_info: _NodeInfo | None = None


class _WireTaint(Struct):
    key: str = ""
    effect: str = ""


class _LocalNodeSpec(Struct):
    taints: list[_WireTaint] | None = None


class WireLocalNode(Struct):
    """The daemon's own node."""

    metadata: LabelledMeta = field(default_factory=LabelledMeta)
    spec: _LocalNodeSpec = field(default_factory=_LocalNodeSpec)
    status: _LocalNodeStatus = field(default_factory=_LocalNodeStatus)


_PODS = msgspec.json.Decoder(ListPage[WireLocalPod])


def local_pods(node: str) -> Resource[LocalPod]:
    """Return the resource of all pods of a node, by their UID in the API."""
    return Resource(
        "pods", "/api/v1/pods", WireLocalPod, _local_pod, {"fieldSelector": f"spec.nodeName={node}"}
    )


def local_node(node: str) -> Resource[LocalNode]:
    """Return the resource of one node, by its name."""
    return Resource(
        "nodes", "/api/v1/nodes", WireLocalNode, _local_node, {"fieldSelector": f"metadata.name={node}"}
    )


def gpu_pods(body: bytes) -> list[GpuPod]:
    """Decode the kubelet's ``/pods``; static pods have the kubelet's UID.

    Raises KubeletError if the body is not a list of pods.
    """
    try:
        page = decode(_PODS, body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise KubeletError(f"the kubelet's list of pods cannot be read: {error}") from error
    return [gpu_pod for wire in page.items or () if (gpu_pod := _gpu_pod(wire))]


def _gpu_pod(wire: WireLocalPod) -> GpuPod | None:
    pod = pod_of(wire)
    if pod is None:
        return None
    annotations = wire.metadata.annotations or _Annotations()
    return GpuPod(
        pod,
        bound_ns=_nanoseconds(annotations.assume_time),
        served=annotations.assigned == "true",
        conflicts=_conflicts(wire.spec),
        running=_running(wire.status),
        static_uid=annotations.mirror or None,
    )


def _local_pod(wire: WireLocalPod) -> tuple[str, LocalPod]:
    meta, status = wire.metadata, wire.status
    static_uid = meta.annotations.mirror if meta.annotations else None
    listed = (
        *(status.init_container_statuses or ()),
        *(status.container_statuses or ()),
        *(status.ephemeral_container_statuses or ()),
    )
    local_pod = LocalPod(
        static_uid or meta.uid,
        meta.namespace,
        meta.name,
        finished=status.phase in ("Succeeded", "Failed"),
        containers={_bare(each.container_id): each.name for each in listed if each.container_id},
        gpu_pod=_gpu_pod(wire),
        mirror=bool(static_uid),
    )
    return meta.uid, local_pod


def _bare(container_id: str) -> str:
    """Return the ID without the runtime prefix, ``containerd://<id>``."""
    return container_id.rpartition("/")[2]


def _running(status: _AgentPodStatus) -> frozenset[str]:
    listed = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    return frozenset(each.name for each in listed if each.state and each.state.running is not None)


def _nanoseconds(text: str | None) -> int:
    """Return the time in an annotation; 0 if absent or malformed."""
    valid = text is not None and text.isascii() and text.isdigit() and len(text) <= _MAX_NS_DIGITS
    return int(text) if text and valid else 0


def _conflicts(spec: _AgentPodSpec) -> dict[str, tuple[Conflict, ...]]:
    """Return the conflicts of each container; the content of ``envFrom`` is not in the pod."""
    found = {}
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        variables = tuple((env.name, env.value) for env in container.env or ())
        mounts = tuple(mount.mount_path for mount in container.volume_mounts or ())
        declared = Declared(variables, mounts, user_namespace=spec.host_users is False)
        if conflicts := conflicts_of(declared):
            found[container.name] = conflicts
    return found


def _local_node(wire: WireLocalNode) -> tuple[str, LocalNode]:
    meta, status = wire.metadata, wire.status
    versions = status.node_info or _NodeInfo()
    facts = LocalNode(
        meta.name,
        meta.uid,
        meta.labels or {},
        meta.annotations or {},
        _resources(status.capacity or {}),
        _resources(status.allocatable or {}),
        versions.kubelet_version or "",
        versions.container_runtime_version or "",
        tuple(Taint(each.key, each.effect) for each in wire.spec.taints or ()),
    )
    return meta.name, facts


def _resources(shown: Mapping[str, Any]) -> dict[str, int]:
    """Return the resources in use; invalid quantities are omitted."""
    found = {}
    for name in RESOURCES & shown.keys():
        try:
            found[name] = parse_quantity(shown[name])
        except InvalidRequest:
            continue
    return found
