"""The settings of one cluster's deployment: every field with its unit and its default.

What belongs here: types and defaults. What does not: reading them (``components.decode``), rules
between them (``components.checks``) and the objects made of them (``components.manifests``).
In the configuration a field is spelled ``likeThis``. The reference page and the schema of the component
provider are made from this module, docstrings included (``components.args``).
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
from gpushare.model.modes import HELD, Mode
from gpushare.model.options import DeviceListStrategy, MemoryUnit, Placement

SHARED_NODES: Final[Mapping[str, str]] = MappingProxyType({LABEL_GPUSHARE: "true"})
HELD_NODES: Final = (
    f"{LABEL_CGPU}=true",
    *(f"{LABEL_MODE}={mode}" for mode in sorted(HELD)),
)
"""Those whose modes hold containers to their amounts."""
MPS_NODES: Final = (f"{LABEL_MODE}={Mode.MPS}",)
NODES_WITH_CARDS: Final = (
    f"{LABEL_GPUSHARE}=true",
    f"{LABEL_CGPU}=true",
    LABEL_MODE,
    LABEL_CARD_MODEL,
    *(f"{label}=true" for label in (LABEL_GPU_PRESENT, *LABELS_PCI_PRESENT)),
)
"""Those that share their cards, those of a known model, and those on which a discovery found cards."""
NO_IMAGES: Final[Mapping[str, str]] = MappingProxyType({})


class Exposure(StrEnum):
    """How kube-scheduler reaches the extender."""

    NODE_PORT = "node-port"
    CLUSTER_IP = "cluster-ip"
    SIDECAR = "sidecar"


class LogLevel(StrEnum):
    """How much a daemon logs."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class State(StrEnum):
    """Whether something is to be there."""

    PRESENT = "present"
    ABSENT = "absent"


class MetricsSource(StrEnum):
    """Whom the metrics API asks."""

    EXPORTERS = "exporters"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A stock kube-scheduler of our own, for clusters whose own scheduler cannot be configured."""

    image: str
    """Of kube-scheduler, in the cluster's version."""
    name: str = "gpushare-scheduler"
    """What pods name as ``schedulerName``."""
    cpu: str = "500m"
    """Cores, requested and limit."""
    memory: str = "512Mi"
    """Requested and limit."""


@dataclass(frozen=True, slots=True)
class Extender:
    """The scheduler extender."""

    image: str = ""
    """By digest; where empty, ``images`` has it as ``extender``."""
    replicas: int = 1
    """1, or 3 of which the holder of the Lease binds."""
    lease: bool = True
    """Whether it gets the right to Leases. Without it there can be one replica only, which waits 18 s before
    its first bind."""
    exposure: Exposure = Exposure.NODE_PORT
    """``node-port``: host network and NodePort 32766, as in the source documents. ``cluster-ip``: a
    Service. ``sidecar``: on loopback beside a kube-scheduler of our own."""
    scheduler: Scheduler | None = None
    """That kube-scheduler; for ``sidecar`` only."""
    tls_secret: str | None = None
    """Secret of kube-system with ``tls.crt``, ``tls.key`` and ``ca.crt``: mutual TLS with the scheduler."""
    log_level: LogLevel = LogLevel.INFO
    """The least that is logged."""
    shortlist: int | None = None
    """How many of the nodes that fit the scheduler is told at most, the best ones; 0 tells all. Not set: 100
    for ``sidecar``, whose scheduler asks no other extender, and all elsewhere."""
    cgpu_pods_per_card: int | None = None
    """How many pods one card of a node of mode ``cgpu`` takes at most, 0 for any number. Not set: 20."""
    cpu: str = "1"
    """Cores, requested and limit."""
    memory: str = "512Mi"
    """Requested and limit."""


@dataclass(frozen=True, slots=True)
class DevicePlugin:
    """The node agent on one pool of nodes."""

    image: str = ""
    """By digest; where empty, ``images`` has it as ``device-plugin``."""
    name: str = ""
    """Of the pool, added to the names of its objects; one pool may go without."""
    node_selector: Mapping[str, str] = field(default_factory=lambda: SHARED_NODES)
    """Labels of the pool's nodes; at most one of ``gpushare``, ``cgpu`` and ``ack.node.gpu.schedule``."""
    memory_unit: MemoryUnit = MemoryUnit.GIB
    """What one unit of ``aliyun.com/gpu-mem`` is on these nodes."""
    device_list_strategy: DeviceListStrategy = DeviceListStrategy.MOUNTS
    """How a container is told its cards; ``envvar`` refuses pods that set ``NVIDIA_VISIBLE_DEVICES``."""
    kubelet_root: str = "/var/lib/kubelet"
    """The kubelet's root folder on the nodes."""
    kubeconfig: str | None = None
    """A kubeconfig on the nodes that is used in place of the service account."""
    runtime_class: str | None = None
    """A RuntimeClass with NVIDIA's runtime, where that is not the nodes' default."""
    evict_recover: bool = False
    """Whether NVIDIA's plugin, where it is a static pod, is taken off the pool's nodes and brought back."""
    cpu: str = "1"
    """Cores, requested and limit."""
    memory: str = "300Mi"
    """Requested and limit."""


@dataclass(frozen=True, slots=True)
class NodePool:
    """Labels and taints of nodes that are there already. They stay when the stack goes."""

    nodes: tuple[str, ...]
    """Names of the nodes."""
    labels: Mapping[str, str] = field(default_factory=lambda: SHARED_NODES)
    """Labels to give them; at most one of ``gpushare``, ``cgpu`` and ``ack.node.gpu.schedule``."""
    placement: Placement | None = None
    """Which card of these nodes a pod gets, where the pod has no wish of its own: label
    ``ack.node.gpu.placement``."""
    taints: tuple[str, ...] = ()
    """As kubectl spells them, ``key=value:Effect``. For nodes without taints: for the API server, the taints
    of a node are one list, and a list that somebody else set is not replaced."""


@dataclass(frozen=True, slots=True)
class Installer:
    """The Job that tells the control plane's own kube-scheduler of the extender, without Ansible.

    It edits the static pod of kube-scheduler on the control plane's nodes, one after the other, and
    restores it where the new scheduler is not healthy.
    """

    image: str = ""
    """By digest; where empty, ``images`` has it as ``cli``."""
    state: State = State.PRESENT
    """``absent`` takes the extender out of the scheduler again."""
    control_planes: int = 1
    """How many nodes the control plane has; each gets one pod, and none is edited before all are placed."""
    url: str = ""
    """Of the extender, as the scheduler sees it; where empty, NodePort 32766 of the scheduler's own node."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """The DaemonSet that puts the isolation library on nodes whose containers are held to their amounts."""

    image: str = ""
    """By digest; where empty, ``images`` has it as ``isolation``."""
    node_labels: tuple[str, ...] = HELD_NODES
    """Where it runs: on nodes with any one of these labels, ``key`` or ``key=value``."""
    state: State = State.PRESENT
    """``absent`` takes the library off the nodes, each version when the last container lets go of it."""
    kubelet_root: str = "/var/lib/kubelet"
    """The kubelet's root folder on the nodes, with the agent's record of who has which version."""
    cpu: str = "100m"
    """Cores, requested and limit."""
    memory: str = "64Mi"
    """Requested and limit."""


@dataclass(frozen=True, slots=True)
class Mps:
    """The DaemonSet that keeps an MPS control daemon up for each card of nodes of mode ``mps``.

    Its pods are replaced only when somebody deletes them: with a pod all CUDA programs of its node end.
    """

    image: str = ""
    """By digest; where empty, ``images`` has it as ``device-plugin``."""
    node_labels: tuple[str, ...] = MPS_NODES
    """Where it runs: on nodes with any one of these labels, ``key`` or ``key=value``."""
    runtime_class: str | None = None
    """A RuntimeClass with NVIDIA's runtime, where that is not the nodes' default."""
    cpu: str = "1"
    """Cores, requested and limit."""
    memory: str = "2Gi"
    """Requested and limit, with that of the MPS servers: where it is too little they are killed."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """What shows, on every node with cards, what cards and containers do."""

    image: str = ""
    """By digest; where empty, ``images`` has it as ``exporter``."""
    node_labels: tuple[str, ...] = NODES_WITH_CARDS
    """Where it runs: on nodes with any one of these labels, ``key`` or ``key=value``. A list replaces the
    default one."""
    interval_seconds: int = 15
    """How often everything is read."""
    kubelet_root: str = "/var/lib/kubelet"
    """The kubelet's root folder on the nodes."""
    runtime_class: str | None = None
    """A RuntimeClass with NVIDIA's runtime, where that is not the nodes' default."""
    cpu: str = "200m"
    """Cores, requested and limit."""
    memory: str = "200Mi"
    """Requested and limit."""


@dataclass(frozen=True, slots=True)
class MetricsApi:
    """What answers ``custom.metrics.k8s.io``: the HPA scales on the use of cards without an adapter."""

    tls_secret: str
    """Secret of kube-system with ``tls.crt`` and ``tls.key`` for ``gpushare-metrics-api.kube-system.svc``."""
    ca_bundle: str
    """The certificates, as PEM, of who signed it: by these the API server knows the metrics API."""
    image: str = ""
    """By digest; where empty, ``images`` has it as ``metrics-api``."""
    replicas: int = 1
    """How many answer."""
    source: MetricsSource = MetricsSource.EXPORTERS
    """``exporters``: the exporters are asked. ``prometheus``: Prometheus is, by PromQL."""
    prometheus_url: str = ""
    """Of Prometheus, where that is the source."""
    cpu: str = "500m"
    """Cores, requested and limit."""
    memory: str = "256Mi"
    """Requested and limit."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    """What shows the use of the cards."""

    exporter: Exporter = field(default_factory=Exporter)
    """On the nodes; ``{}`` where its defaults and ``images`` say it all."""
    metrics_api: MetricsApi | None = None
    """For the HPA, where prometheus-adapter does not answer the same API."""
    adapter_rules: bool = False
    """Whether there is a ConfigMap with the source documents' rules for prometheus-adapter."""
    operator: bool = False
    """Whether scrapes, rules and alerts are objects of the Prometheus Operator; a ConfigMap otherwise."""
    dashboards: bool = True
    """Whether there are ConfigMaps with dashboards, which Grafana's sidecar finds by their label."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace with its part of the cluster's GPU memory.

    Namespace and PriorityClass stay when the tenant or the stack goes; the quota goes.
    """

    name: str
    """Of the namespace."""
    gpu_mem: int
    """Units of ``aliyun.com/gpu-mem`` that all its pods together may ask for."""
    priority: int | None = None
    """Value of a PriorityClass named like the tenant; none is made without it. Kubernetes does not change
    it: to change it, delete the PriorityClass first."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Everything that runs in one cluster."""

    kubernetes_version: KubernetesVersion
    """Of the cluster, like "1.36"."""
    extender: Extender
    """The scheduler extender; ``{}`` where its defaults and ``images`` say it all."""
    device_plugins: tuple[DevicePlugin, ...] = ()
    """One for each pool of nodes."""
    node_pools: tuple[NodePool, ...] = ()
    """Nodes to label; none where that is done elsewhere."""
    installer: Installer | None = None
    """Where the control plane's kube-scheduler is a static pod and nothing else configures it."""
    isolation: Isolation | None = None
    """What holds containers to their amounts; ``{}`` where its defaults and ``images`` say it all."""
    mps: Mps | None = None
    """What shares the cards of nodes of mode ``mps``; ``{}`` where its defaults and ``images`` say it all."""
    monitoring: Monitoring | None = None
    """What shows the use of the cards; ``{}`` where its defaults and ``images`` say it all."""
    tenants: tuple[Tenant, ...] = ()
    """Namespaces with a quota."""
    images: Mapping[str, str] = field(default_factory=lambda: NO_IMAGES)
    """Images by name (``extender``, ``device-plugin``, ``exporter``, ``isolation``, ``metrics-api``,
    ``cli``), as the pipeline built them. A stack's file may name a JSON file instead, relative to the
    project."""
    registry: str = ""
    """A mirror, ``host/path``, that takes the place of the registry's host in every image; "" for none."""
    image_pull_secrets: tuple[str, ...] = ()
    """Secrets of kube-system with which every pod may pull its images."""
    allow_tags: bool = False
    """Whether images may be named by tag; digests only otherwise."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An output of another stack."""

    stack: str
    """Like ``organization/project/stack``."""
    output: str = "kubeconfig"
    """Name of the output."""


@dataclass(frozen=True, slots=True)
class Stack(ClusterSettings):
    """A cluster and the way to it."""

    kubeconfig: str = ""
    """Path of the kubeconfig that Pulumi deploys with; where empty, it looks as kubectl does."""
    kubeconfig_from: Elsewhere | None = None
    """The stack that made the cluster, where its kubeconfig is an output of that stack."""
    context: str = ""
    """Context of the kubeconfig."""
    adopt: bool = False
    """Whether objects of these names that exist already, such as an installation from the source
    documents' YAML, are taken over; an error otherwise. While true, nothing is deleted in the cluster."""
