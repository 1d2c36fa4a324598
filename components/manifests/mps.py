"""The MPS daemon: a DaemonSet that asks nobody and so has no rights in the API."""

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
_POWERS: Final = ("SYS_ADMIN", "SETUID", "SETGID")
"""For the compute mode of cards, and for servers that run as the users of their clients."""
_FAILURES: Final = 30
"""Five minutes of silence: whoever ends this container ends all CUDA programs of its node."""
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
                # An update must not end the programs of all nodes: who deletes a pod has drained its node.
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
        # MPS tells its clients by the pids of the host.
        "hostPID": True,
        "terminationGracePeriodSeconds": _GRACE_S,
        "tolerations": [dict(GPU_TAINT)],
        "affinity": nodes_with_any(settings.node_labels),
        "containers": [_container(settings)],
        "volumes": [
            host_path("state", MPS_STATE, "DirectoryOrCreate"),
            host_path("shm", MPS_SHM, "DirectoryOrCreate"),
            # Asks NVIDIA's runtime for all cards; it takes the variable from privileged pods only.
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
            # Brings the control daemon and its server.
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        ],
        "ports": [{"name": OPS, "containerPort": MPS_PORT}],
        **probes,
        "livenessProbe": {**probes["livenessProbe"], "failureThreshold": _FAILURES},
        "resources": sizes(settings.cpu, settings.memory),
        "securityContext": {
            "runAsUser": 0,
            **security,
            "capabilities": {**security["capabilities"], "add": list(_POWERS)},
        },
        "volumeMounts": [
            # Where the node has it: programs find it by these names.
            {"name": "state", "mountPath": MPS_STATE},
            {"name": "shm", "mountPath": SHM},
            {"name": "all-cards", "mountPath": f"{VISIBLE_BY_MOUNTS}/all", "readOnly": True},
        ],
    }
