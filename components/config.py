"""The settings of one cluster's deployment: every field with its unit and its default.

What belongs here: types and defaults. What does not: reading them (``components.decode``), rules
between them (``components.checks``) and the objects made of them (``components.manifests``).
In the configuration a field is spelled ``likeThis``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gpushare.contract import LABEL_GPUSHARE
from gpushare.model.scheduler_config import KubernetesVersion

SHARED_NODES: Final[Mapping[str, str]] = MappingProxyType({LABEL_GPUSHARE: "true"})


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


class MemoryUnit(StrEnum):
    """What one unit of ``aliyun.com/gpu-mem`` is."""

    GIB = "GiB"
    MIB = "MiB"


class DeviceListStrategy(StrEnum):
    """How a container is told its cards."""

    MOUNTS = "volume-mounts"
    CDI = "cdi"
    ENV = "envvar"


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A stock kube-scheduler of our own, for clusters whose own scheduler cannot be configured."""

    image: str
    """Of kube-scheduler, in the cluster's version."""
    name: str = "gpushare-scheduler"
    """What pods name as ``schedulerName``."""
    cpu: str = "500m"
    memory: str = "512Mi"


@dataclass(frozen=True, slots=True)
class Extender:
    """The scheduler extender."""

    image: str
    replicas: int = 1
    """1, or 3 of which the holder of the Lease binds."""
    lease: bool = True
    """Whether it gets the right to Leases, without which there can be one replica only."""
    exposure: Exposure = Exposure.NODE_PORT
    """``node-port``: host network and NodePort 32766, as in the source documents. ``cluster-ip``: a
    Service. ``sidecar``: on loopback beside a kube-scheduler of our own."""
    scheduler: Scheduler | None = None
    """That kube-scheduler; for ``sidecar`` only."""
    tls_secret: str | None = None
    """Secret of kube-system with ``tls.crt``, ``tls.key`` and ``ca.crt``: mutual TLS with the scheduler."""
    log_level: LogLevel = LogLevel.INFO
    cpu: str = "1"
    """Requested and limit."""
    memory: str = "512Mi"
    """Requested and limit."""


@dataclass(frozen=True, slots=True)
class DevicePlugin:
    """The node agent on one pool of nodes."""

    image: str
    name: str = ""
    """Of the pool, added to the names of its objects; one pool may go without."""
    node_selector: Mapping[str, str] = field(default_factory=lambda: SHARED_NODES)
    """Labels of the pool's nodes; at most one of ``gpushare``, ``cgpu`` and ``ack.node.gpu.schedule``."""
    memory_unit: MemoryUnit = MemoryUnit.GIB
    device_list_strategy: DeviceListStrategy = DeviceListStrategy.MOUNTS
    kubelet_root: str = "/var/lib/kubelet"
    """The kubelet's ``--root-dir`` on the nodes."""
    kubeconfig: str | None = None
    """A kubeconfig on the nodes that is used in place of the service account."""
    runtime_class: str | None = None
    """Where NVIDIA's runtime is not the nodes' default."""
    evict_recover: bool = False
    """Whether NVIDIA's plugin, where it is a static pod, is taken off the pool's nodes and brought back."""
    cpu: str = "1"
    """Requested and limit."""
    memory: str = "300Mi"
    """Requested and limit."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace with its part of the cluster's GPU memory."""

    name: str
    gpu_mem: int
    """Units of ``aliyun.com/gpu-mem`` that all its pods together may ask for."""
    priority: int | None = None
    """Value of a PriorityClass named like the tenant; none is made without it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything of one cluster."""

    kubernetes_version: KubernetesVersion
    """Of the cluster, like "1.36"."""
    extender: Extender
    device_plugins: tuple[DevicePlugin, ...] = ()
    """One for each pool of nodes."""
    tenants: tuple[Tenant, ...] = ()
    allow_tags: bool = False
    """Whether images may be named by tag; digests only otherwise."""
    kubeconfig: str = ""
    """Path of the kubeconfig that Pulumi deploys with; where empty, it looks as kubectl does."""
    context: str = ""
    """Context of that kubeconfig."""
