"""The MPS daemon: a DaemonSet without API permissions."""

from typing import Final

from components.config import Mps
from components.manifests.device_plugin import GPU_TAINT
from components.manifests.parts import (
    OPS,
    Object,
    container_security,
    host_path,
    http_probes,
    labels,
    metadata,
    nodes_with_any,
    sizes,
)
from gpushare.contract import MPS_NAME, MPS_PORT, MPS_SHM, MPS_STATE, SHM, VISIBLE_BY_MOUNTS

_LABELS: Final = labels(MPS_NAME)
_CAPABILITIES: Final = ("SYS_ADMIN", "SETUID", "SETGID")
"""To set the compute mode of GPUs, and to run servers as the users of their clients."""
_FAILURES: Final = 30
"""Five minutes, because a restart of this container terminates all CUDA programs on its node."""
_GRACE_S: Final = 60


def objects(settings: Mps) -> list[Object]:
    """The DaemonSet."""
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata(MPS_NAME, _LABELS),
            "spec": {
                "selector": {"matchLabels": dict(_LABELS)},
                # An update must not terminate the programs of all nodes: drain a node, then delete its pod.
                "updateStrategy": {"type": "OnDelete"},
                "template": {"metadata": {"labels": dict(_LABELS)}, "spec": _pod(settings)},
            },
        }
    ]


def _pod(settings: Mps) -> Object:
    runtime = {"runtimeClassName": settings.runtime_class} if settings.runtime_class else {}
    return {
        "automountServiceAccountToken": False,
        "priorityClassName": "system-node-critical",
        **runtime,
        # MPS identifies its clients by the pids of the host.
        "hostPID": True,
        "terminationGracePeriodSeconds": _GRACE_S,
        "tolerations": [dict(GPU_TAINT)],
        "affinity": nodes_with_any(settings.node_labels),
        "containers": [_container(settings)],
        "volumes": [
            host_path("state", MPS_STATE, "DirectoryOrCreate"),
            host_path("shm", MPS_SHM, "DirectoryOrCreate"),
            # Requests all GPUs from NVIDIA's runtime, which accepts the variable from privileged pods only.
            host_path("all-cards", "/dev/null", ""),
        ],
    }


def _container(settings: Mps) -> Object:
    probes = http_probes("/healthz", "/readyz", OPS)
    security = container_security()
    return {
        "name": MPS_NAME,
        "image": settings.image,
        "command": ["gpushare", "mps"],
        "env": [
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
            {"name": "all-cards", "mountPath": f"{VISIBLE_BY_MOUNTS}/all", "readOnly": True},
        ],
    }
