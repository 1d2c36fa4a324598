"""The MPS daemon: a DaemonSet without API permissions."""

from typing import Final

from components.config import Mps
from components.manifests.parts import (
    ALL_GPUS,
    OPS,
    Object,
    all_gpus_env,
    all_gpus_volume,
    container_security,
    daemon_set,
    host_path,
    http_probes,
    labels,
    nodes_with_any,
    placement,
    runtime_class,
    sizes,
)
from components.options import arguments
from gpushare.contract import MPS_NAME, MPS_PORT, MPS_SHM, MPS_STATE, SHM

_LABELS: Final = labels(MPS_NAME)
_CAPABILITIES: Final = ("SYS_ADMIN", "SETUID", "SETGID")
"""To set the compute mode of GPUs, and to run servers as the users of their clients."""
_FAILURES: Final = 30
"""Five minutes, because a restart of this container terminates all CUDA programs on its node."""
_GRACE_S: Final = 60
_ON_DELETE: Final[Object] = {"type": "OnDelete"}
"""An update must not terminate the programs of all nodes: drain a node, then delete its pod."""


def objects(settings: Mps) -> list[Object]:
    """The DaemonSet."""
    return [daemon_set(MPS_NAME, _LABELS, _pod(settings), _ON_DELETE)]


def _pod(settings: Mps) -> Object:
    return {
        "automountServiceAccountToken": False,
        **runtime_class(settings.runtime_class),
        # MPS identifies its clients by the pids of the host.
        "hostPID": True,
        "terminationGracePeriodSeconds": _GRACE_S,
        **placement(settings.tolerations, settings.priority_class),
        "affinity": nodes_with_any(settings.node_labels),
        "containers": [_container(settings)],
        "volumes": [
            host_path("state", MPS_STATE, "DirectoryOrCreate"),
            host_path("shm", MPS_SHM, "DirectoryOrCreate"),
            all_gpus_volume(),
        ],
    }


def _container(settings: Mps) -> Object:
    probes = http_probes("/healthz", "/readyz", OPS)
    security = container_security()
    return {
        "name": MPS_NAME,
        "image": settings.image,
        "command": ["gpushare", "mps", *arguments(settings)],
        "env": [
            all_gpus_env(),
            {"name": "OPS_PORT", "value": str(MPS_PORT)},
            # Mounts the control daemon and its server.
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        ],
        "ports": [{"name": OPS, "containerPort": MPS_PORT}],
        **probes,
        "livenessProbe": {**probes["livenessProbe"], "failureThreshold": _FAILURES},
        "resources": sizes(settings.cpu, settings.memory),
        "securityContext": {
            "runAsUser": 0,
            **security,
            "capabilities": {**security["capabilities"], "add": list(_CAPABILITIES)},
        },
        "volumeMounts": [
            # At the same path as on the node, because programs use this path.
            {"name": "state", "mountPath": MPS_STATE},
            {"name": "shm", "mountPath": SHM},
            {"name": "all-cards", "mountPath": ALL_GPUS, "readOnly": True},
        ],
    }
