"""The settings of one cluster's deployment: every field with its unit and its default.

What belongs here: types and defaults. What does not: decoding (``components.decode``), checks
(``components.checks``) and the objects (``components.manifests``). In the configuration, field names are in
camel case. The reference page and the schema of the component provider are generated from this module,
including the docstrings (``components.args``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gpushare.contract import (
    LABEL_CARD_MODEL,
    LABEL_CGPU,
    LABEL_GPU_PRESENT,
    LABEL_GPUSHARE,
    LABEL_MODE,
    LABELS_PCI_PRESENT,
)
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.model.modes import LIMITING, Mode
from gpushare.model.options import DeviceListStrategy, MemoryUnit, Placement

SHARED_NODES: Final[Mapping[str, str]] = MappingProxyType({LABEL_GPUSHARE: "true"})
LIMITED_NODES: Final = (
    f"{LABEL_CGPU}=true",
    *(f"{LABEL_MODE}={mode}" for mode in sorted(LIMITING)),
)
"""Nodes with a mode that enforces limits."""
MPS_NODES: Final = (f"{LABEL_MODE}={Mode.MPS}",)
GPU_NODES: Final = (
    f"{LABEL_GPUSHARE}=true",
    f"{LABEL_CGPU}=true",
    LABEL_MODE,
    LABEL_CARD_MODEL,
    *(f"{label}=true" for label in (LABEL_GPU_PRESENT, *LABELS_PCI_PRESENT)),
)
"""Nodes that share GPUs, nodes with a known model, and nodes where a discovery found GPUs."""
FIRST_MUTATING: Final = KubernetesVersion(1, 36)
"""The first version with MutatingAdmissionPolicies by default."""
NO_IMAGES: Final[Mapping[str, str]] = MappingProxyType({})


class Exposure(StrEnum):
    """How kube-scheduler reaches the extender."""

    NODE_PORT = "node-port"
    CLUSTER_IP = "cluster-ip"
    SIDECAR = "sidecar"


class Tls(StrEnum):
    """Authentication on the port of the extender for kube-scheduler."""

    STACK = "stack"
    NONE = "none"


class LogLevel(StrEnum):
    """Log level of a daemon."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class State(StrEnum):
    """Whether the object should exist."""

    PRESENT = "present"
    ABSENT = "absent"


class MetricsSource(StrEnum):
    """Source of the metrics API."""

    EXPORTERS = "exporters"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True, slots=True)
class Webhook:
    """The webhook that names the scheduler of new pods, in clusters before Kubernetes 1.36."""

    tls_secret: str
    """Secret in kube-system with ``tls.crt`` and ``tls.key`` for
    ``gpushare-scheduler-name.kube-system.svc``."""
    ca_bundle: str
    """CA certificates in PEM, with which the API server verifies the webhook."""
    replicas: int = 2
    """Number of pods. Without one, new pods keep the default scheduler."""
    cpu: str = "100m"
    """CPU request and limit."""
    memory: str = "128Mi"
    """Memory request and limit."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """An additional stock kube-scheduler, for clusters where the default scheduler cannot be configured."""

    image: str
    """Image of kube-scheduler, in the version of the cluster."""
    name: str = "gpushare-scheduler"
    """The ``schedulerName`` of pods that use it."""
    claim_pods: bool = True
    """Whether pods that request GPU memory and name no scheduler get this one when they are created. From
    Kubernetes 1.36 on, a policy sets it; earlier the webhook, or a policy warns, from 1.30 on."""
    webhook: Webhook | None = None
    """Sets the scheduler before Kubernetes 1.36."""
    cpu: str = "500m"
    """CPU request."""
    cpu_limit: str = "4"
    """CPU limit; a scheduler that is throttled delays every pod of its queue."""
    memory: str = "512Mi"
    """Memory request."""
    memory_limit: str = "4Gi"
    """Memory limit. It needs about 20 KiB for each pod of the cluster, with or without a GPU."""


@dataclass(frozen=True, slots=True)
class Extender:
    """The scheduler extender."""

    image: str = ""
    """Image with digest; default: ``extender`` of ``images``."""
    replicas: int = 1
    """1, 2 or 3; of several only the leader binds."""
    lease: bool = True
    """Whether it may use a Lease. Without the Lease only one replica is possible, which waits 18 s before its
    first bind."""
    exposure: Exposure = Exposure.NODE_PORT
    """``node-port``: host network and NodePort 32766, as in the ACK documentation. ``cluster-ip``: a
    Service. ``sidecar``: on loopback, each replica beside an additional kube-scheduler."""
    scheduler: Scheduler | None = None
    """The additional kube-scheduler; only with ``sidecar``."""
    tls: Tls = Tls.NONE
    """``stack``: mutual TLS between the scheduler and the extender, with certificates that the stack makes in
    the cluster. ``none``: plain HTTP, with which every host and pod that reaches the port can bind pods."""
    tls_secret: str | None = None
    """Secret in kube-system with ``tls.crt``, ``tls.key`` and ``ca.crt`` of another CA, to use instead of
    certificates of the stack. With ``sidecar`` only replicas use it, between each other."""
    client_names: tuple[str, ...] = ()
    """Names in the certificates of those who may filter and bind, if they differ from the defaults. Include
    those of kube-scheduler and, with several replicas, of the extender."""
    certificates_image: str = ""
    """Image with digest of the Job that makes certificates; default: ``cli`` of ``images``."""
    log_level: LogLevel = LogLevel.INFO
    """Lowest level that is logged."""
    shortlist: int | None = None
    """Maximum number of nodes that a filter call returns, the best ones; 0 for all. Default: 100 for
    ``sidecar``, where the scheduler calls no other extender, else all."""
    cgpu_pods_per_card: int | None = None
    """Maximum number of pods per GPU on nodes of mode ``cgpu``, 0 for no limit. Default: 20."""
    cpu: str = "1"
    """CPU request and limit."""
    memory: str = "512Mi"
    """Memory request and limit."""


@dataclass(frozen=True, slots=True)
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
    device_list_strategy: DeviceListStrategy = DeviceListStrategy.MOUNTS
    """How the container runtime receives the GPUs of a container; ``envvar`` rejects pods that set
    ``NVIDIA_VISIBLE_DEVICES``."""
    kubelet_root: str = "/var/lib/kubelet"
    """Root folder of the kubelet on the nodes."""
    kubeconfig: str | None = None
    """A kubeconfig on the nodes to use instead of the service account."""
    query_kubelet: bool = False
    """Whether the agents also read the pods of their kubelets, which static pods with GPU memory need. The CA
    of the cluster must have signed the certificates of the kubelets. Before Kubernetes 1.33 this needs
    ``nodes/proxy``, a right that includes running commands in every pod."""
    runtime_class: str | None = None
    """RuntimeClass for NVIDIA's runtime, if that is not the default runtime of the nodes."""
    evict_recover: bool = False
    """Whether to stop NVIDIA's plugin on the nodes of the pool, where it is a static pod, and restore it when
    sharing ends."""
    cpu: str = "1"
    """CPU request and limit."""
    memory: str = "300Mi"
    """Memory request and limit."""


@dataclass(frozen=True, slots=True)
class NodePool:
    """Labels and taints of existing nodes. They stay when the stack is destroyed."""

    nodes: tuple[str, ...]
    """Names of the nodes."""
    labels: Mapping[str, str] = field(default_factory=lambda: SHARED_NODES)
    """Labels to set; at most one of ``gpushare``, ``cgpu`` and ``ack.node.gpu.schedule``."""
    placement: Placement | None = None
    """Placement policy of these nodes, unless a pod has its own: label ``ack.node.gpu.placement``."""
    taints: tuple[str, ...] = ()
    """Taints as in kubectl, ``key=value:Effect``. Only for nodes without other taints: the API server treats
    the taints of a node as one list, and a list of another manager is not replaced."""


@dataclass(frozen=True, slots=True)
class Installer:
    """The Job that adds the extender to the default kube-scheduler, without Ansible.

    It edits the static pod of kube-scheduler on the control plane nodes, one after the other, and restores it
    if the new scheduler is not healthy.
    """

    image: str = ""
    """Image with digest; default: ``cli`` of ``images``."""
    state: State = State.PRESENT
    """``absent`` removes the extender from the scheduler."""
    control_planes: int = 1
    """Number of control plane nodes; each gets one pod, and editing starts when all pods are bound."""
    url: str = ""
    """URL of the extender, as the scheduler reaches it; default: NodePort 32766 on the node."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """The DaemonSet that installs the isolation library on nodes that enforce limits."""

    image: str = ""
    """Image with digest; default: ``isolation`` of ``images``."""
    node_labels: tuple[str, ...] = LIMITED_NODES
    """It runs on nodes with at least one of these labels, ``key`` or ``key=value``."""
    state: State = State.PRESENT
    """``absent`` removes the library from the nodes, each version when no container uses it."""
    kubelet_root: str = "/var/lib/kubelet"
    """Root folder of the kubelet on the nodes, with the record of the node agent (versions in use)."""
    cpu: str = "100m"
    """CPU request and limit."""
    memory: str = "64Mi"
    """Memory request and limit."""


@dataclass(frozen=True, slots=True)
class Mps:
    """The DaemonSet that runs an MPS control daemon per GPU on nodes of mode ``mps``.

    Its pods are replaced only when they are deleted: a restart ends all CUDA programs of the node.
    """

    image: str = ""
    """Image with digest; default: ``device-plugin`` of ``images``."""
    node_labels: tuple[str, ...] = MPS_NODES
    """It runs on nodes with at least one of these labels, ``key`` or ``key=value``."""
    runtime_class: str | None = None
    """RuntimeClass for NVIDIA's runtime, if that is not the default runtime of the nodes."""
    cpu: str = "1"
    """CPU request and limit."""
    memory: str = "2Gi"
    """Memory request and limit, including the MPS servers, which are killed if it is too low."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """The DaemonSet that serves metrics of GPUs and containers on every node with GPUs."""

    image: str = ""
    """Image with digest; default: ``exporter`` of ``images``."""
    node_labels: tuple[str, ...] = GPU_NODES
    """It runs on nodes with at least one of these labels, ``key`` or ``key=value``. A list replaces the
    default."""
    interval_seconds: int = 15
    """Interval between readings."""
    kubelet_root: str = "/var/lib/kubelet"
    """Root folder of the kubelet on the nodes."""
    runtime_class: str | None = None
    """RuntimeClass for NVIDIA's runtime, if that is not the default runtime of the nodes."""
    cpu: str = "200m"
    """CPU request and limit."""
    memory: str = "200Mi"
    """Memory request and limit."""


@dataclass(frozen=True, slots=True)
class MetricsApi:
    """The server of ``custom.metrics.k8s.io``: the HPA scales on GPU usage without an adapter."""

    tls_secret: str
    """Secret in kube-system with ``tls.crt`` and ``tls.key`` for ``gpushare-metrics-api.kube-system.svc``."""
    ca_bundle: str
    """CA certificates in PEM, with which the API server verifies the metrics API."""
    image: str = ""
    """Image with digest; default: ``metrics-api`` of ``images``."""
    replicas: int = 1
    """Number of pods."""
    source: MetricsSource = MetricsSource.EXPORTERS
    """``exporters``: reads the exporters. ``prometheus``: queries Prometheus."""
    prometheus_url: str = ""
    """URL of Prometheus; only with source ``prometheus``."""
    cpu: str = "500m"
    """CPU request and limit."""
    memory: str = "256Mi"
    """Memory request and limit."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Monitoring of the GPUs."""

    exporter: Exporter = field(default_factory=Exporter)
    """The exporter; ``{}`` for the defaults."""
    metrics_api: MetricsApi | None = None
    """The metrics API for the HPA, if prometheus-adapter does not serve the same API."""
    adapter_rules: bool = False
    """Whether to create a ConfigMap with the rules of the ACK documentation for prometheus-adapter."""
    operator: bool = False
    """Whether scrapes, rules and alerts are objects of the Prometheus Operator instead of a ConfigMap."""
    dashboards: bool = True
    """Whether to create ConfigMaps with dashboards, which the sidecar of Grafana finds by their label."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace with a quota of GPU memory.

    Namespace and PriorityClass stay when the tenant or the stack is removed; the quota is deleted.
    """

    name: str
    """Name of the namespace."""
    gpu_mem: int
    """Units of ``aliyun.com/gpu-mem`` that all its pods together may request."""
    priority: int | None = None
    """Value of a PriorityClass with the name of the tenant; without it none is created. The value is
    immutable in Kubernetes: delete the PriorityClass before a change."""


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
    images: Mapping[str, str] = field(default_factory=lambda: NO_IMAGES)
    """Images by name (``extender``, ``device-plugin``, ``exporter``, ``isolation``, ``metrics-api``,
    ``cli``). In the file of a stack, this may be the name of a JSON file, relative to the project."""
    registry: str = ""
    """A mirror, ``host/path``, that replaces the registry host in every image; "" for none."""
    image_pull_secrets: tuple[str, ...] = ()
    """Secrets in kube-system with which every pod pulls its images."""
    allow_tags: bool = False
    """Whether images may have a tag instead of a digest."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An output of another stack."""

    stack: str
    """Like ``organization/project/stack``."""
    output: str = "kubeconfig"
    """Name of the output."""


@dataclass(frozen=True, slots=True)
class Stack(ClusterSettings):
    """A cluster and the access to it."""

    kubeconfig: str = ""
    """Path of the kubeconfig for Pulumi; default: as kubectl."""
    kubeconfig_from: Elsewhere | None = None
    """The stack that created the cluster, if the kubeconfig is an output of that stack."""
    context: str = ""
    """Context of the kubeconfig."""
    adopt: bool = False
    """Whether to take over existing objects with these names, such as an installation from the YAML of the
    ACK documentation; else they are an error. While true, nothing is deleted in the cluster."""
