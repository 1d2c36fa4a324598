"""Every public name: resources, labels, annotations, routes, objects.

What belongs here: literal strings and numbers that other programs use (schedulers, kubelets, manifests of
users, dashboards, the Aliyun gpushare pair). What does not: defaults of our own settings, logic, and names
that only one module needs.

Names of the Aliyun gpushare pair are unchanged; our own names start with ``gpushare.io/``.
"""

from typing import Final

RUNBOOKS: Final = "docs/how-to/runbooks.md"
"""A page with one section per alert. The package has its text too, for ``kubectl gpushare runbook``."""
RUNBOOK_COMMAND: Final = "kubectl gpushare runbook"
"""Prints the section of an alert; alerts name it."""

# --- extended resources -------------------------------------------------------------------------
RESOURCE_MEM: Final = "aliyun.com/gpu-mem"
"""Units of GPU memory (GiB by default, MiB by flag), summed over the GPUs of a node."""
RESOURCE_COUNT: Final = "aliyun.com/gpu-count"
"""Number of GPUs of a node. Node information only: pods cannot request it."""
RESOURCE_CORE: Final = "aliyun.com/gpu-core.percentage"
"""Compute share, 100 per GPU, requested in steps of ``CORE_STEP``."""
RESOURCE_WHOLE_GPU: Final = "nvidia.com/gpu"
"""Whole GPUs, served by NVIDIA's device plugin on nodes that do not share."""
RESOURCE_TIME_SLICED_GPU: Final = "nvidia.com/gpu.shared"
"""The same where NVIDIA's plugin allocates each GPU to several containers (``renameByDefault``)."""
NVIDIA_PLUGIN_MANIFEST: Final = "nvidia-device-plugin.yml"
"""The static pod of NVIDIA's plugin on nodes of ACK."""
RESOURCE_MIG_PREFIX: Final = "nvidia.com/mig-"
"""Prefix of the resources for MIG devices of NVIDIA's plugin."""
MANAGED_RESOURCES: Final = (RESOURCE_MEM, RESOURCE_CORE)
"""Resources for which kube-scheduler calls the extender."""

CORE_PER_CARD: Final = 100
CORE_STEP: Final = 5

# --- pod annotations, written at bind -----------------------------------------------------------
ANN_IDX: Final = "ALIYUN_COM_GPU_MEM_IDX"
ANN_DEV: Final = "ALIYUN_COM_GPU_MEM_DEV"
ANN_POD: Final = "ALIYUN_COM_GPU_MEM_POD"
ANN_ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
ANN_ASSUME_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
ANN_ALLOCATION: Final = "scheduler.framework.gpushare.allocation"
"""JSON ``{"<containerIdx>": {"<gpuIdx>": <units>}}``; authoritative for several GPUs."""
ANN_CORE_ALLOCATION: Final = "gpushare.alibabacloud.com/core-percentage"
"""Same shape as ``ANN_ALLOCATION``, in core percent."""
ANN_SEAL: Final = "gpushare.io/seal"
"""Keyed digest of the bind annotations: annotations without a valid seal are ignored."""
ANN_PLACEMENT: Final = "gpushare.io/placement"
"""Placement policy of a pod; overrides the label of the node."""
ANN_USE_MODELS: Final = "gpushare.io/use-gpu-models"
"""GPU models of which a pod uses one, with commas; see ``gpushare.model.gpu_choice``."""
ANN_AVOID_MODELS: Final = "gpushare.io/avoid-gpu-models"
ANN_USE_UUIDS: Final = "gpushare.io/use-gpu-uuids"
ANN_AVOID_UUIDS: Final = "gpushare.io/avoid-gpu-uuids"
ANN_SAME_GPU: Final = "gpushare.io/same-gpu-as"
"""A pod of the same namespace, by name or by labels, whose GPU a pod uses too."""
ANN_OTHER_GPU: Final = "gpushare.io/other-gpu-than"
ANN_SAFE_TO_EVICT: Final = "gpushare.io/safe-to-evict"
"""``"false"``: the pod is not moved; ``"true"``: it may be evicted although no controller replaces it."""
ANN_SAFE_TO_EVICT_AUTOSCALER: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""The annotation of Cluster Autoscaler, with the same values; that of gpushare comes first."""
ANN_MODE: Final = "gpushare.io/mode"
"""Sharing mode of the node when the pod was bound, for information; the seal covers the mode."""

CHOICE_ANNOTATIONS: Final = (
    ANN_USE_MODELS,
    ANN_AVOID_MODELS,
    ANN_USE_UUIDS,
    ANN_AVOID_UUIDS,
    ANN_SAME_GPU,
    ANN_OTHER_GPU,
)
"""The annotations by which a user says which GPUs a pod may use."""
ALLOCATION_ANNOTATIONS: Final = (
    ANN_IDX,
    ANN_DEV,
    ANN_POD,
    ANN_ASSIGNED,
    ANN_ASSUME_TIME,
    ANN_ALLOCATION,
    ANN_CORE_ALLOCATION,
    ANN_SEAL,
    ANN_MODE,
)
"""The annotations of a bind, written by the extender and corrected by the agent."""

# --- node annotations, written by the node agent -----------------------------------------------
ANN_CARDS: Final = "gpushare.io/cards"
"""JSON list of every GPU of the node; see ``gpushare.model.cards``."""
ANN_ASSIGNED_NODE: Final = "gpushare.io/assigned"
"""JSON ``{"<podUID>": {"<container>": {"<gpuIdx>": <units>}}}``; overrides pod annotations."""
ANN_CLOSED: Final = "gpushare.io/closed"
"""Why the node takes no new pods; absent while it does."""
ANN_OPENED: Final = "gpushare.io/opened"
"""When the node began to take pods, or to take them on more GPUs, a moment after that change."""
ANN_DEVICE_LIST: Final = "gpushare.io/device-list"
"""How containers get their GPUs, and why: ``cdi: <reason>``; see ``gpushare.model.device_lists``."""

# --- labels -------------------------------------------------------------------------------------
LABEL_CARDS_PER_POD: Final = "aliyun.com/gpu-count"
"""Pod label: spread the units of the pod evenly over that many GPUs of one node."""
LABEL_GPUSHARE: Final = "gpushare"
LABEL_CGPU: Final = "cgpu"
LABEL_MODE: Final = "ack.node.gpu.schedule"
LABEL_PLACEMENT: Final = "ack.node.gpu.placement"

LABEL_NO_ISOLATION: Final = "cgpu.disable.isolation"
LABEL_CARD_MODEL: Final = "aliyun.accelerator/nvidia_name"
LABEL_CARD_MIB: Final = "aliyun.accelerator/nvidia_mem"
LABEL_CARD_COUNT: Final = "aliyun.accelerator/nvidia_count"
LABEL_UNLISTED: Final = "gpushare.io/unlisted-model"
"""On nodes with a GPU that is no data-centre GPU."""
LABEL_GPU_PRESENT: Final = "nvidia.com/gpu.present"
"""``true`` on nodes with NVIDIA GPUs; set by GPU Feature Discovery, the GPU Operator or an administrator."""
LABELS_PCI_PRESENT: Final = tuple(
    f"feature.node.kubernetes.io/pci-{device}.present" for device in ("10de", "0300_10de", "0302_10de")
)
"""``true`` on nodes with PCI devices of NVIDIA. Node Feature Discovery names them by vendor, as the GPU
Operator configures it, or by class and vendor, its own default; 0300 and 0302 are the classes of GPUs."""
LABEL_OPERATOR_PLUGIN: Final = "nvidia.com/gpu.deploy.device-plugin"
"""``true`` where the GPU Operator runs NVIDIA's device plugin; ``false`` keeps the plugin off a node."""
ANN_OPERATOR_PLUGIN: Final = "gpushare.io/operator-device-plugin"
"""Node annotation of the role ``node_labels``: that label before the node was shared, empty if absent."""
ANN_CORDONED_CARDS: Final = "gpushare.io/cordoned-cards"
"""Node annotation, set by administrators: indices of cordoned GPUs, ``0,2``."""
ANN_MPS_MULTI_USER: Final = "gpushare.io/mps-multi-user"
"""``true`` if the MPS servers of the node can serve several users at once; set by an administrator."""

# --- taints -------------------------------------------------------------------------------------
STARTUP_TAINTS: Final = ("gpushare.io/starting", "startup-taint.cluster-autoscaler.kubernetes.io/gpushare")
"""Keys of taints of nodes that autoscalers add: the agent removes them once the kubelet offers units. Cluster
Autoscaler knows the prefix of the second one without ``--startup-taint``."""

# --- containers, as the device plugin configures them ------------------------------------------------
ENV_IDX: Final = "ALIYUN_COM_GPU_MEM_IDX"
ENV_POD: Final = "ALIYUN_COM_GPU_MEM_POD"
ENV_CONTAINER: Final = "ALIYUN_COM_GPU_MEM_CONTAINER"
ENV_DEV: Final = "ALIYUN_COM_GPU_MEM_DEV"
ENV_NO_ISOLATION: Final = "CGPU_DISABLE"
ENV_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
VISIBLE_BY_MOUNTS: Final = "/var/run/nvidia-container-devices"
"""Value of ``NVIDIA_VISIBLE_DEVICES``, and folder of mounts, of the toolkit's volume-mount strategy."""
CDI_KIND: Final = "nvidia.com/gpu"
"""Kind of the CDI devices that ``nvidia-ctk cdi generate`` describes."""
CDI_KINDS: Final = (CDI_KIND, "k8s.device-plugin.nvidia.com/gpu")
"""Kinds of CDI devices that are GPUs; the second is that of NVIDIA's device plugin."""
CDI_KIND_OF_OPERATOR: Final = "management.nvidia.com/gpu"
"""Kind of the CDI device for containers of the GPU Operator: all GPUs together."""
CDI_FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
"""Folders of CDI specifications; the later one counts."""

# --- isolation ----------------------------------------------------------------------------------
ISOLATION_LIBRARIES: Final = "/var/lib/gpushare"
"""Folder on nodes: the library, in one folder per version. The default of a setting."""
ISOLATION_STATE: Final = "/run/gpushare"
"""Folder on nodes, in memory: limit file and region of each container."""
ISOLATION_INSIDE: Final = "/.gpushare"
"""Folder in containers: library, limit file and region. At the root, where no pod has a volume."""
ISOLATION_GUARD: Final = "/.gpushare-library"
"""Path in containers of a mount that fails, and the container with it, if the library is missing on the node.

Container runtimes process mounts by the depth of this path: it comes before all others.
"""
PRELOAD: Final = "/etc/ld.so.preload"
"""Libraries that the loader of glibc loads before those of a program."""
ISOLATION_INSTALLER_NAME: Final = "cgpu-installer"
ISOLATION_INSTALLER_PORT: Final = 12350

# --- MPS -----------------------------------------------------------------------------------------
MPS_NAME: Final = "gpushare-mps"
MPS_PORT: Final = 12351
MPS_STATE: Final = "/run/gpushare-mps"
"""Folder on nodes, in memory: pipes and logs of the MPS control daemon of each GPU."""
MPS_SHM: Final = "/dev/shm/gpushare-mps"  # noqa: S108 - not a name that is made at run time
"""Folder on nodes, in memory: mounted at ``SHM`` in the control daemons and all their clients."""
MPS_INSIDE: Final = f"{ISOLATION_INSIDE}/mps"
"""Folder in containers: the pipes of their GPU."""
SHM: Final = "/dev/shm"  # noqa: S108 - where the C library looks
ENV_MPS_PIPES: Final = "CUDA_MPS_PIPE_DIRECTORY"
ENV_MPS_LOGS: Final = "CUDA_MPS_LOG_DIRECTORY"
ENV_MPS_PERCENT: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
ENV_MPS_MEMORY: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
"""Like ``0=4308M``: per process, by the index of the GPU among those that the program sees."""

# --- the kubelet's folders and annotations ------------------------------------------------------
DEVICE_PLUGIN_FOLDER: Final = "/var/lib/kubelet/device-plugins"
KUBELET_SOCKET: Final = "kubelet.sock"
KUBELET_CHECKPOINT: Final = "kubelet_internal_checkpoint"
POD_RESOURCES_SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
AGENT_RECORD: Final = "gpushare/allocations.json"
"""Below the folder of device plugins: allocations of the agent, and the library of each container."""
FAULT_RECORD: Final = "gpushare/faults.json"
"""Beside the record of the agent: XID errors after which GPUs wait for a reset."""
MEM_SOCKET: Final = "aliyungpushare.sock"
CORE_SOCKET: Final = "gpushare-core.sock"

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""UID of a static pod, written by the kubelet in the pod's object of the API."""

# --- unhealthy GPUs -----------------------------------------------------------------------------
UNHEALTHY_PREFIX: Final = "unhealthy-gpu-"
UNHEALTHY_KEY: Final = "gpus"
SYSTEM_NAMESPACE: Final = "kube-system"

# --- the extender's HTTP interface --------------------------------------------------------------
EXTENDER_PREFIX: Final = "/gpushare-scheduler"
EXTENDER_WAITING_PATH: Final = f"{EXTENDER_PREFIX}/waiting"
"""Where a replica tells the leader which pods wait."""
EXTENDER_VERSION: Final = "0.1.0"
"""Body of ``GET /version``: the protocol version of the Aliyun extender."""
EXTENDER_DEFAULT_PORT: Final = 39999
EXTENDER_SERVICE_PORT: Final = 12345
EXTENDER_OPS_PORT: Final = 12346
EXTENDER_NODE_PORT: Final = 32766
EXTENDER_PEER_PORT: Final = 12352
"""Where replicas that serve their schedulers on loopback forward binds to each other."""
EXTENDER_NAME: Final = "gpushare-schd-extender"
SIDECAR_SCHEDULER: Final = "gpushare-scheduler"
"""Default name of the scheduler beside the extender."""
SCHEDULER_NAMING: Final = "gpushare-scheduler-name"
"""Name of the policy, or of the webhook, that sets the scheduler of a sidecar in new pods."""
SCHEDULER_NAMING_PATH: Final = "/scheduler-name"
SCHEDULER_NAMING_PORT: Final = 12353
SCHEDULER_NAMING_OPS_PORT: Final = 12354
INSTALLER_NAME: Final = "gpushare-installer"
"""Name of the Job that edits kube-scheduler, component of its events, and label of its pods."""
CERTIFICATES_NAME: Final = "gpushare-certificates"
"""Name of the CronJob that makes the certificates of scheduler and extender, prefix of the name of the first
Job, and label of their pods."""
TLS_CERT: Final = "tls.crt"
TLS_KEY: Final = "tls.key"
TLS_CA: Final = "ca.crt"
"""Keys of a Secret with a certificate, as cert-manager names them."""
EXTENDER_TLS_SECRET: Final = "gpushare-schd-extender-tls"  # noqa: S105 - a name
"""Certificate of the extender, of which replicas are also clients."""
CLIENT_TLS_SECRET: Final = "gpushare-scheduler-client-tls"  # noqa: S105 - a name
"""Client certificate of kube-scheduler."""
AUTHORITY_SECRET: Final = "gpushare-certificate-authority"  # noqa: S105 - a name
"""Key and certificates of the authority of both."""
EXTENDER_SERVER_NAME: Final = f"{EXTENDER_NAME}.{SYSTEM_NAMESPACE}.svc"
"""Name in the certificate of the extender, whatever address a client uses."""
SCHEDULER_CLIENT_NAME: Final = "system:kube-scheduler"
"""Name in the client certificate of kube-scheduler, the same as for the API server."""
SEAL_SECRET: Final = "gpushare-schd-extender-seal"  # noqa: S105 - a name
SEAL_SECRET_KEY: Final = "key"  # noqa: S105 - a name
MAX_EXTENDER_SCORE: Final = 10

REASON_NOT_SHARED: Final = "The node {node} is not for GPU share, need skip"
REASON_ANNOTATIONS: Final = "The annotations of the pod leave no room for an allocation, remove some"
REASON_REJECTED: Final = "Kubelets rejected pods of this workload, the next ones wait"
REASON_GROUP: Final = ", beside the other members of its pod group"
REASON_NO_CARD: Final = "Insufficient GPU Memory in one device"

# --- the exporter -------------------------------------------------------------------------------
EXPORTER_NAME: Final = "gpushare-exporter"
EXPORTER_PORT: Final = 12348

# --- the metrics API ----------------------------------------------------------------------------
METRICS_API_NAME: Final = "gpushare-metrics-api"
METRICS_CERTIFICATES_NAME: Final = "gpushare-metrics-certificates"
"""Name of the CronJob that makes its certificate, prefix of the name of the first Job, and label of their
pods."""
METRICS_TLS_SECRET: Final = "gpushare-metrics-api-tls"  # noqa: S105 - a name
METRICS_AUTHORITY_SECRET: Final = "gpushare-metrics-api-authority"  # noqa: S105 - a name
"""Key and certificate of an authority for the metrics API alone."""
METRICS_SERVER_NAME: Final = f"{METRICS_API_NAME}.{SYSTEM_NAMESPACE}.svc"
"""Name in its certificate, which the API server expects."""
METRICS_API_PORT: Final = 10250
"""The port of kubelets, which firewalls of providers open for the control plane. In private clusters of GKE,
it reaches 443 and 10250 only (kubernetes-sigs/metrics-server#1026, cert-manager/approver-policy#144)."""
METRICS_API_OPS_PORT: Final = 12349
METRICS_API_GROUP: Final = "custom.metrics.k8s.io"
METRICS_API_VERSIONS: Final = ("v1beta2", "v1beta1")
USAGE_API_GROUP: Final = "usage.gpushare.io"
USAGE_API_VERSION: Final = "v1"
POOL_LABELS: Final = (
    "node.kubernetes.io/instance-type",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "alibabacloud.com/nodepool-id",
    "karpenter.sh/nodepool",
)
"""Labels by which Kubernetes and providers name pools of nodes."""
AUTHENTICATION_CONFIG: Final = "extension-apiserver-authentication"
"""ConfigMap in ``kube-system`` with which extension API servers authenticate the API server."""

# --- the board ----------------------------------------------------------------------------------
BOARD_NAME: Final = "gpushare-board"
BOARD_PORT: Final = 8443
BOARD_OPS_PORT: Final = 12355

# --- events -------------------------------------------------------------------------------------
AGENT_OPS_PORT: Final = 12347
AGENT_NAME: Final = "gpushare-device-plugin"
"""Name of the node agent and component of its events; that of the extender is ``EXTENDER_NAME``."""
EVENT_PLACED: Final = "GPUSharePlaced"
EVENT_REFUSED: Final = "GPUShareRefused"
EVENT_MALFORMED: Final = "GPUShareMalformed"
EVENT_EVICTED: Final = "GPUShareEvicted"
"""A pod was evicted so that another one gets its GPU memory."""
EVENT_ROOM: Final = "GPUShareMakingRoom"
"""Room is made for a waiting pod, or cannot be made now."""
EVENT_OVERCOMMIT: Final = "GPUShareOverCommitted"
EVENT_ASSIGNED: Final = "GPUShareAssigned"
"""A pod was allocated a GPU that its annotations did not name."""
EVENT_CARD_UNHEALTHY: Final = "GPUShareCardUnhealthy"
EVENT_CARD_RECOVERED: Final = "GPUShareCardRecovered"
EVENT_CARDS_CHANGED: Final = "GPUShareCardsChanged"
EVENT_CARD_IN_USE: Final = "GPUShareCardInUse"
"""A GPU is unschedulable because a container uses it as a whole GPU."""
EVENT_CARD_FREE: Final = "GPUShareCardFree"
EVENT_NOT_SERVING: Final = "GPUShareNotServing"
EVENT_NOT_HELD: Final = "GPUShareProcessNotHeld"
"""An uncounted process on a GPU with limited containers."""
EVENT_UNCOUNTED: Final = "GPUShareMemoryUncounted"
"""A limited container uses clearly more memory of a GPU than the isolation library has counted."""
EVENT_REGION: Final = "GPUShareRegionResized"
"""A container has changed the size of its region."""
