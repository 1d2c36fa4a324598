"""The settings of the extender and of the scheduler beside it. Part of ``components.config``."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from components.config_pods import CLUSTER_CRITICAL, CONTROL_PLANE_TAINTS
from components.formats import Cpu, Memory, Name, ObjectName, Replicas, Tolerations
from components.options import accepts
from components.services import EXTENDER, WEBHOOK
from gpushare.contract import SIDECAR_SCHEDULER
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.model.options import ClusterPlacement, MakeRoom
from gpushare.runtime.settings import LogLevel

FIRST_MUTATING: Final = KubernetesVersion(1, 36)
"""The first version with MutatingAdmissionPolicies by default."""


class Exposure(StrEnum):
    """How kube-scheduler reaches the extender."""

    NODE_PORT = "node-port"
    CLUSTER_IP = "cluster-ip"
    SIDECAR = "sidecar"


class TlsMode(StrEnum):
    """Authentication on the port of the extender for kube-scheduler."""

    STACK = "stack"
    NONE = "none"


@dataclass(frozen=True, slots=True)
@accepts(WEBHOOK)
class Webhook:
    """The webhook that names the scheduler of new pods, in clusters before Kubernetes 1.36."""

    tls_secret: Name
    """Secret in kube-system with ``tls.crt`` and ``tls.key`` for
    ``gpushare-scheduler-name.kube-system.svc``."""
    ca_bundle: str = ""
    """CA certificates in PEM, with which the API server verifies the webhook."""
    inject_ca_from: str = ""
    """Certificate of cert-manager, ``namespace/name``, whose CA certificates it writes instead of
    ``caBundle``."""
    replicas: Replicas = 2
    """Number of pods, 1 to 10. While none runs, new pods keep the default scheduler."""
    cpu: Cpu = "100m"
    """CPU request and limit."""
    memory: Memory = "128Mi"
    """Memory request and limit."""
    tolerations: Tolerations = CONTROL_PLANE_TAINTS
    """Taints of nodes on which its pods may run. A list replaces the default."""
    priority_class: ObjectName = CLUSTER_CRITICAL
    """PriorityClass of its pods."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """An additional stock kube-scheduler, which leaves the default one as it is."""

    image: str = ""
    """Image of kube-scheduler, in the version of the cluster; default: ``registry.k8s.io/kube-scheduler``
    with the tag of the first release of ``kubernetesVersion``, like ``v1.36.0``, which is never moved."""
    name: Name = SIDECAR_SCHEDULER
    """The ``schedulerName`` of pods that use it."""
    set_scheduler_name: bool = True
    """Whether pods that request GPU memory and name no scheduler get this one when they are created. From
    Kubernetes 1.36 on, a policy sets the name. Before, the webhook sets it; without the webhook, a policy
    warns, from 1.30 on."""
    webhook: Webhook | None = None
    """Sets the scheduler before Kubernetes 1.36."""
    cpu: Cpu = "500m"
    """CPU request."""
    cpu_limit: Cpu = "4"
    """CPU limit; a scheduler that is throttled delays every pod of its queue."""
    memory: Memory = "512Mi"
    """Memory request."""
    memory_limit: Memory = "4Gi"
    """Memory limit. It needs about 20 KiB for each pod of the cluster, with or without a GPU."""
    extra_args: tuple[str, ...] = ()
    """Arguments that the program gets after all others, as they are."""


@dataclass(frozen=True, slots=True)
@accepts(EXTENDER)
class Extender:
    """The scheduler extender."""

    image: str = ""
    """Image with digest; default: ``extender`` of ``images``."""
    replicas: int = 1
    """1, 2 or 3; only the leader binds."""
    lease: bool = True
    """Whether the extender may use a Lease. Without the Lease only one replica is possible, and it waits 18 s
    before its first bind."""
    exposure: Exposure = Exposure.SIDECAR
    """``sidecar``: on loopback, each replica beside an additional kube-scheduler; no further setup is
    needed. ``node-port``: host network of control plane nodes and NodePort 32766, as in the ACK
    documentation. ``cluster-ip``: a Service. For ``node-port`` and ``cluster-ip`` you must change the default
    kube-scheduler."""
    scheduler: Scheduler | None = None
    """The additional kube-scheduler; only with ``sidecar``, where ``{}`` is the default."""
    tls: TlsMode | None = None
    """``stack``: mutual TLS between the scheduler and the extender, with certificates that the stack makes in
    the cluster. ``none``: plain HTTP, with which every host and pod that reaches the port can bind pods.
    Default: ``stack``; required with ``adopt``."""
    tls_secret: Name | None = None
    """Secret in kube-system with ``tls.crt``, ``tls.key`` and ``ca.crt`` of another CA, to use instead of
    certificates of the stack. With ``sidecar`` only replicas use it, between each other."""
    client_names: tuple[str, ...] = ()
    """Names in the certificates of clients that may filter and bind, if they differ from the defaults.
    Include the name of kube-scheduler and, with several replicas, the name of the extender."""
    certificates_image: str = ""
    """Image with digest of the Job that makes certificates; default: ``cli`` of ``images``."""
    log_level: LogLevel = LogLevel.INFO
    """Lowest level that is logged."""
    make_room: MakeRoom | None = None
    """Whether the leader evicts pods of lower priority for a pod that fits on no GPU, although a node has
    enough units in all: ``never``, ``dry-run`` (events only) or ``evict``. Only with ``evict`` its account
    has the right to evict pods. Default: ``never``."""
    placement: ClusterPlacement | None = None
    """Placement policy of pods and nodes that name none: ``binpack``, or ``replay``, which compares all nodes
    and follows pods without GPUs too. Default: ``binpack``."""
    shortlist: int | None = None
    """Maximum number of nodes that a filter call returns, the best ones; 0 for all. Default: 100 for
    ``sidecar``, where the scheduler calls no other extender, else all. Not with ``replay``."""
    cpu: Cpu = "1"
    """CPU request and limit."""
    memory: Memory = "512Mi"
    """Memory request and limit."""
    tolerations: Tolerations = CONTROL_PLANE_TAINTS
    """Taints of nodes on which its pods may run. A list replaces the default."""
    priority_class: ObjectName = CLUSTER_CRITICAL
    """PriorityClass of its pods."""
