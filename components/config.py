"""The settings of one cluster's deployment: every field with its unit and its default.

What belongs here: types and defaults. What does not: decoding (``components.decode``), checks
(``components.checks``) and the objects (``components.manifests``). In the configuration, field names are in
camel case. The reference page and the schema of the component provider are generated from these classes,
including the docstrings (``components.args``). Those of the extender, of monitoring and of pods are in
``config_extender``, ``config_monitoring`` and ``config_pods``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Final

from components.config_extender import Extender
from components.config_monitoring import Monitoring
from components.config_pods import EVERY_TAINT, MAX_UNAVAILABLE, NODE_CRITICAL
from components.formats import (
    Addresses,
    Cpu,
    Labels,
    Memory,
    Name,
    NodeCount,
    NodeLabels,
    NodePath,
    ObjectName,
    Taint,
    Tolerations,
    between,
)
from components.options import accepts
from components.services import AGENT, ISOLATION, MPS
from gpushare.contract import CDI_FOLDERS, ISOLATION_LIBRARIES, LABEL_CGPU, LABEL_MODE
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.model.modes import LIMITING, Mode
from gpushare.model.options import DeviceListChoice, MemoryUnit
from gpushare.scheduling.placement import Placement

SHARED_NODES: Final[Mapping[str, str]] = MappingProxyType({LABEL_CGPU: "true"})
"""The nodes of a pool by default, those of the ACK documentation: they share their GPUs and limit memory."""
LIMITED_NODES: Final = (
    f"{LABEL_CGPU}=true",
    *(f"{LABEL_MODE}={mode}" for mode in sorted(LIMITING)),
)
"""Nodes with a mode that enforces limits."""
MPS_NODES: Final = (f"{LABEL_MODE}={Mode.MPS}",)
NONE: Final[Mapping[str, str]] = MappingProxyType({})
_MAX_PRIORITY: Final = 1_000_000_000
"""Higher values are reserved for Kubernetes."""
_MAX_CONTROL_PLANES: Final = 100
_Amount = Annotated[int, between(0, 10**12)]
"""At most more than the MiB of all GPUs of a cluster, and an integer in every program that reads quotas."""


class PodSecurity(StrEnum):
    """A Pod Security Standard."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class Presence(StrEnum):
    """Whether the object should exist."""

    PRESENT = "present"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
@accepts(AGENT)
class DevicePlugin:
    """The node agent on one pool of nodes."""

    image: str = ""
    """Image with digest; default: ``device-plugin`` of ``images``."""
    name: str = ""
    """Name of the pool, added to the names of its objects; one pool may have no name."""
    node_selector: Mapping[str, str] = field(default_factory=lambda: SHARED_NODES)
    """Labels of its nodes; at most one of ``gpushare``, ``cgpu`` and ``ack.node.gpu.schedule``."""
    memory_unit: MemoryUnit = MemoryUnit.GIB
    """Size of one unit of ``aliyun.com/gpu-mem`` on these nodes."""
    device_list_strategy: DeviceListChoice = DeviceListChoice.AUTO
    """How the container runtime receives the GPUs of a container. ``auto`` is ``cdi`` where kubelet, runtime
    and a CDI specification allow it, else ``volume-mounts``; ``envvar`` rejects pods that set
    ``NVIDIA_VISIBLE_DEVICES``."""
    cdi_folders: tuple[NodePath, ...] = CDI_FOLDERS
    """Folders of CDI specifications on the nodes, as their container runtime reads them."""
    kubelet_root: NodePath = "/var/lib/kubelet"
    """Root folder of the kubelet on the nodes."""
    kubeconfig: NodePath | None = None
    """A kubeconfig on the nodes to use instead of the service account."""
    query_kubelet: bool = False
    """Whether the agents also read the pods of their kubelets, which static pods with GPU memory need. The CA
    of the cluster must have signed the certificates of the kubelets. Before Kubernetes 1.33 this needs
    ``nodes/proxy``, a right that includes running commands in every pod."""
    startup_taint: bool = False
    """Whether the agents may remove the startup taint with which an autoscaler adds nodes, once the units of
    the node are there: the right to patch nodes, of which a policy allows nothing else."""
    runtime_class: ObjectName | None = None
    """RuntimeClass for NVIDIA's runtime, if that is not the default runtime of the nodes."""
    driver_root: NodePath | None = None
    """Root folder of the driver on the nodes, to use its NVML and not the one that NVIDIA's runtime mounts,
    such as ``/run/nvidia/driver`` of the GPU Operator."""
    evict_recover: bool = False
    """Whether to stop NVIDIA's plugin on the nodes of the pool, where it is a static pod, and restore it when
    sharing ends."""
    cpu: Cpu = "1"
    """CPU request and limit."""
    memory: Memory = "300Mi"
    """Memory request and limit."""
    tolerations: Tolerations = EVERY_TAINT
    """Taints of nodes on which its pods may run. Default: every node. A list replaces the default."""
    priority_class: ObjectName = NODE_CRITICAL
    """PriorityClass of its pods."""
    max_unavailable: NodeCount = MAX_UNAVAILABLE
    """Number or percentage of nodes whose pods are replaced at the same time, like "1" or "10%"."""


@dataclass(frozen=True, slots=True)
class NodePool:
    """Labels and taints of existing nodes. They stay when the stack is destroyed."""

    nodes: tuple[ObjectName, ...]
    """Names of the nodes."""
    labels: Labels = field(default_factory=lambda: SHARED_NODES)
    """Labels to set; at most one of ``gpushare``, ``cgpu`` and ``ack.node.gpu.schedule``."""
    placement: Placement | None = None
    """Placement policy of these nodes, unless a pod has its own: label ``ack.node.gpu.placement``."""
    taints: tuple[Taint, ...] = ()
    """Taints as in kubectl, ``key=value:Effect``. Only for nodes without other taints: the API server treats
    the taints of a node as one list, and gpushare does not replace a list of another manager."""


@dataclass(frozen=True, slots=True)
class Installer:
    """The Job that adds the extender to the default kube-scheduler, without Ansible.

    It edits the static pod of kube-scheduler on the control plane nodes, one after the other, and restores it
    if the new scheduler is not healthy.
    """

    image: str = ""
    """Image with digest; default: ``cli`` of ``images``."""
    state: Presence = Presence.PRESENT
    """``absent`` removes the extender from the scheduler."""
    control_planes: Annotated[int, between(1, _MAX_CONTROL_PLANES)] = 1
    """Number of control plane nodes; each gets one pod, and editing starts when all pods are bound."""
    url: str = ""
    """URL of the extender, as the scheduler reaches it; default: NodePort 32766 on the node."""


@dataclass(frozen=True, slots=True)
@accepts(ISOLATION)
class Isolation:
    """The DaemonSet that installs the isolation library on nodes that enforce limits."""

    image: str = ""
    """Image with digest; default: ``isolation`` of ``images``."""
    node_labels: NodeLabels = LIMITED_NODES
    """It runs on nodes with at least one of these labels, ``key`` or ``key=value``."""
    state: Presence = Presence.PRESENT
    """``absent`` removes the library from the nodes, each version when no container uses it."""
    folder: NodePath = ISOLATION_LIBRARIES
    """Folder of the library on the nodes, for the installer and the node agents: writable, and on a mount
    without ``noexec``. It stays the same while containers use the library."""
    kubelet_root: NodePath = "/var/lib/kubelet"
    """Root folder of the kubelet on the nodes, with the record of the node agent (versions in use)."""
    cpu: Cpu = "100m"
    """CPU request and limit."""
    memory: Memory = "64Mi"
    """Memory request and limit."""
    tolerations: Tolerations = EVERY_TAINT
    """Taints of nodes on which its pods may run. Default: every node. A list replaces the default."""
    priority_class: ObjectName = NODE_CRITICAL
    """PriorityClass of its pods."""
    max_unavailable: NodeCount = MAX_UNAVAILABLE
    """Number or percentage of nodes whose pods are replaced at the same time, like "1" or "10%"."""


@dataclass(frozen=True, slots=True)
@accepts(MPS)
class Mps:
    """The DaemonSet that runs an MPS control daemon per GPU on nodes of mode ``mps``.

    Its pods are replaced only when they are deleted: a restart ends all CUDA programs of the node.
    """

    image: str = ""
    """Image with digest; default: ``device-plugin`` of ``images``."""
    node_labels: NodeLabels = MPS_NODES
    """It runs on nodes with at least one of these labels, ``key`` or ``key=value``."""
    runtime_class: ObjectName | None = None
    """RuntimeClass for NVIDIA's runtime, if that is not the default runtime of the nodes."""
    cpu: Cpu = "1"
    """CPU request and limit."""
    memory: Memory = "2Gi"
    """Memory request and limit, including the MPS servers, which are killed if it is too low."""
    tolerations: Tolerations = EVERY_TAINT
    """Taints of nodes on which its pods may run. Default: every node. A list replaces the default."""
    priority_class: ObjectName = NODE_CRITICAL
    """PriorityClass of its pods."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace with a quota of GPU memory.

    Namespace and PriorityClass stay when the tenant or the stack is removed; the quota is deleted.
    """

    name: Name
    """Name of the namespace."""
    gpu_mem: _Amount
    """Units of ``aliyun.com/gpu-mem`` that all pods of the namespace together may request."""
    gpu_core: _Amount | None = None
    """Percent of GPUs (``aliyun.com/gpu-core.percentage``) that the pods together may request; no limit by
    default."""
    gpus: _Amount | None = None
    """Whole GPUs (``nvidia.com/gpu``) that the pods together may request; no limit by default."""
    pod_security: PodSecurity | None = None
    """Pod Security Standard that the API server enforces for its pods, from Kubernetes 1.23 on; default:
    the standard of the cluster."""
    priority: Annotated[int, between(-_MAX_PRIORITY, _MAX_PRIORITY)] | None = None
    """Value of a PriorityClass with the name of the tenant; without it none is created. The value is
    immutable in Kubernetes: delete the PriorityClass before a change."""


@dataclass(frozen=True, slots=True)
class NetworkPolicies:
    """Policies for our pods, except for those of the host network.

    No other host or pod reaches their ports, and they reach DNS, kube-apiserver and each other only. Your
    network plugin must enforce NetworkPolicies, and always allow the probes of kubelets.
    """

    control_plane: tuple[Addresses, ...]
    """Addresses of kube-apiserver and kube-scheduler as pods see them, like 10.0.0.0/28."""
    monitoring_namespaces: tuple[Name, ...] = ()
    """Namespaces whose pods may read metrics, such as the namespace of Prometheus."""
    board_namespaces: tuple[Name, ...] = ()
    """Namespaces whose pods reach the board, such as the namespace of an ingress controller."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Everything that runs in one cluster."""

    kubernetes_version: KubernetesVersion
    """Version of the cluster, like "1.36"."""
    extender: Extender
    """The scheduler extender; ``{}`` for the defaults."""
    device_plugins: tuple[DevicePlugin, ...] = ()
    """The node agent, one entry per node pool."""
    node_pools: tuple[NodePool, ...] = ()
    """Nodes to label; leave it empty if something else labels them."""
    installer: Installer | None = None
    """For a kube-scheduler that is a static pod and that nothing else configures."""
    isolation: Isolation | None = None
    """Enforcement of limits; ``{}`` for the defaults."""
    mps: Mps | None = None
    """MPS daemons for nodes of mode ``mps``; ``{}`` for the defaults."""
    monitoring: Monitoring | None = None
    """Monitoring of the GPUs; ``{}`` for the defaults."""
    tenants: tuple[Tenant, ...] = ()
    """Namespaces with a quota."""
    admission: bool = True
    """Whether to create admission policies, from Kubernetes 1.30 on: only the extender and the agents write
    allocations, an agent writes only to its node, and pods of tenants have no other access to GPUs."""
    network_policies: NetworkPolicies | None = None
    """NetworkPolicies for our pods; by default none."""
    images: Mapping[str, str] = field(default_factory=lambda: NONE)
    """Images by name (``extender``, ``device-plugin``, ``exporter``, ``isolation``, ``metrics-api``,
    ``cli``, and the foreign ``prometheus``). In the file of a stack, this may be the name of a JSON file,
    relative to the project."""
    registry: str = ""
    """A mirror, ``host/path``, that replaces the registry host in every image; "" for none."""
    labels: Labels = field(default_factory=lambda: NONE)
    """Labels of every object and pod of the stack, except for nodes."""
    annotations: Mapping[str, str] = field(default_factory=lambda: NONE)
    """Annotations of every object and pod of the stack, except for nodes."""
    image_pull_secrets: tuple[ObjectName, ...] = ()
    """Secrets in kube-system with which every pod pulls its images."""
    allow_tags: bool = False
    """Whether images may have a tag instead of a digest."""


@dataclass(frozen=True, slots=True)
class Stack(ClusterSettings):
    """A cluster and the access to it."""

    kubeconfig: str = ""
    """Path of the kubeconfig for Pulumi, or its text as a secret of the stack; default: as kubectl."""
    context: str = ""
    """Context of the kubeconfig; required if it has several."""
    cluster_uid: str = ""
    """UID of the cluster, as ``kubectl get namespace kube-system -o jsonpath={.metadata.uid}`` prints it. If
    set, nothing is changed in any other cluster."""
    adopt: bool = False
    """Whether to take over existing objects with these names, such as an installation from the YAML of the
    ACK documentation; else they are an error. While true, nothing is deleted in the cluster."""
