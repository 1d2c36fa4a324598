"""The settings of monitoring. Part of ``components.config``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from components.config_pods import (
    CLUSTER_CRITICAL,
    CONTROL_PLANE_TAINTS,
    EVERY_TAINT,
    MAX_UNAVAILABLE,
    NODE_CRITICAL,
)
from components.formats import (
    Cpu,
    Labels,
    Memory,
    Name,
    NodeCount,
    NodeLabels,
    NodePath,
    ObjectName,
    Replicas,
    Retention,
    Storage,
    Tolerations,
    Url,
)
from components.options import accepts
from components.services import BOARD, EXPORTER, METRICS_API
from gpushare.contract import (
    LABEL_CARD_MODEL,
    LABEL_CGPU,
    LABEL_GPU_PRESENT,
    LABEL_GPUSHARE,
    LABEL_MODE,
    LABELS_PCI_PRESENT,
)

GPU_NODES: Final = (
    f"{LABEL_GPUSHARE}=true",
    f"{LABEL_CGPU}=true",
    LABEL_MODE,
    LABEL_CARD_MODEL,
    *(f"{label}=true" for label in (LABEL_GPU_PRESENT, *LABELS_PCI_PRESENT)),
)
"""Nodes that share GPUs, nodes with a known model, and nodes where a discovery found GPUs."""


OPERATOR_LABELS: Final[Mapping[str, str]] = MappingProxyType({"release": "kube-prometheus-stack"})


@dataclass(frozen=True, slots=True)
@accepts(EXPORTER)
class Exporter:
    """The DaemonSet that serves metrics of GPUs and containers on every node with GPUs."""

    image: str = ""
    """Image with digest; default: ``exporter`` of ``images``."""
    node_labels: NodeLabels = GPU_NODES
    """It runs on nodes with at least one of these labels, ``key`` or ``key=value``. A list replaces the
    default."""
    kubelet_root: NodePath = "/var/lib/kubelet"
    """Root folder of the kubelet on the nodes."""
    runtime_class: ObjectName | None = None
    """RuntimeClass for NVIDIA's runtime, if that is not the default runtime of the nodes."""
    driver_root: NodePath | None = None
    """Root folder of the driver on the nodes, as ``driverRoot`` of ``devicePlugins``."""
    cpu: Cpu = "200m"
    """CPU request and limit."""
    memory: Memory = "200Mi"
    """Memory request and limit."""
    tolerations: Tolerations = EVERY_TAINT
    """Taints of nodes on which its pods may run. Default: every node. A list replaces the default."""
    priority_class: ObjectName = NODE_CRITICAL
    """PriorityClass of its pods."""
    max_unavailable: NodeCount = MAX_UNAVAILABLE
    """Number or percentage of nodes whose pods are replaced at the same time, like "1" or "10%"."""


@dataclass(frozen=True, slots=True)
@accepts(METRICS_API)
class MetricsApi:
    """The metrics API: users see the GPU pods of their namespace, and the HPA scales on GPU usage."""

    enabled: bool = True
    """Whether to deploy it."""
    tls_secret: Name | None = None
    """Secret in kube-system with ``tls.crt`` and ``tls.key`` for ``gpushare-metrics-api.kube-system.svc``.
    Default: a Job in the cluster makes and renews the certificate."""
    ca_bundle: str = ""
    """CA certificates in PEM, with which the API server verifies ``tlsSecret``."""
    inject_ca_from: str = ""
    """Certificate of cert-manager, ``namespace/name``, whose CA certificates it writes instead of
    ``caBundle``."""
    custom_metrics: bool = False
    """Whether it serves ``custom.metrics.k8s.io`` too, for the HPA. Not beside prometheus-adapter."""
    image: str = ""
    """Image with digest; default: ``metrics-api`` of ``images``."""
    certificates_image: str = ""
    """Image with digest of the Job that makes the certificate; default: ``cli`` of ``images``."""
    replicas: Replicas = 2
    """Number of pods, 1 to 10. Without one, namespaces that are deleted stay Terminating."""
    cpu: Cpu = "250m"
    """CPU request and limit."""
    memory: Memory = "256Mi"
    """Memory request and limit."""
    tolerations: Tolerations = CONTROL_PLANE_TAINTS
    """Taints of nodes on which its pods may run. A list replaces the default."""
    priority_class: ObjectName = CLUSTER_CRITICAL
    """PriorityClass of its pods."""


@dataclass(frozen=True, slots=True)
@accepts(BOARD)
class Board:
    """The board, served in the cluster to users who sign in with a token of the API server."""

    tls_secret: Name
    """Secret in kube-system with ``tls.crt`` and ``tls.key`` for the name by which browsers reach it."""
    image: str = ""
    """Image with digest; default: ``cli`` of ``images``."""
    cpu: Cpu = "500m"
    """CPU request and limit."""
    memory: Memory = "512Mi"
    """Memory request and limit."""
    tolerations: Tolerations = CONTROL_PLANE_TAINTS
    """Taints of nodes on which its pod may run. A list replaces the default."""
    priority_class: ObjectName = CLUSTER_CRITICAL
    """PriorityClass of its pod."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A Prometheus for the metrics of this project only, for a cluster without one."""

    image: str = ""
    """Image with digest, 2.42 or later; default: ``prometheus`` of ``images``."""
    storage: Storage | None = None
    """Size of its PersistentVolumeClaim, like 20Gi; default: an emptyDir, whose data ends with the pod."""
    storage_class: ObjectName | None = None
    """StorageClass of the claim; default: the StorageClass of the cluster."""
    retention: Retention = "15d"
    """How long it keeps data, like 12h or 15d."""
    cpu: Cpu = "500m"
    """CPU request and limit."""
    memory: Memory = "1Gi"
    """Memory request and limit."""
    tolerations: Tolerations = CONTROL_PLANE_TAINTS
    """Taints of nodes on which its pod may run. A list replaces the default."""
    priority_class: ObjectName = CLUSTER_CRITICAL
    """PriorityClass of its pod."""
    extra_args: tuple[str, ...] = ()
    """Arguments that the program gets after all others, as they are."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Monitoring of the GPUs."""

    exporter: Exporter = field(default_factory=Exporter)
    """The exporter; ``{}`` for the defaults."""
    metrics_api: MetricsApi = field(default_factory=MetricsApi)
    """The metrics API for users and for the HPA; ``{}`` for the defaults."""
    board: Board | None = None
    """The board for all who may list nodes and the pods of all namespaces."""
    adapter_rules: bool = False
    """Whether to create a ConfigMap with the rules of the ACK documentation for prometheus-adapter."""
    prometheus: Prometheus | None = None
    """A Prometheus with the scrapes, rules and alerts of this project, for a cluster without one."""
    operator: bool = False
    """Whether scrapes, rules and alerts are objects of the Prometheus Operator instead of a ConfigMap."""
    operator_labels: Labels = field(default_factory=lambda: OPERATOR_LABELS)
    """Labels of these objects, by which Prometheus selects them. Default: the labels of the chart
    kube-prometheus-stack, if its release has the same name."""
    runbooks: Url | None = None
    """URL of the page with the runbooks, to which alerts link. Without it they only name the command that
    prints the runbook: ``kubectl gpushare runbook``."""
    viewers: tuple[str, ...] = ()
    """Groups of users who may run the commands of ``kubectl gpushare`` that read. They see the pods of all
    namespaces, and may GET from the ports of all pods in kube-system, where the exporters are."""
    dashboards: bool = True
    """Whether to create ConfigMaps with dashboards, which the sidecar of Grafana finds by their label."""
