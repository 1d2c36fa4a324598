"""The exporter: account, roles and the DaemonSet on every node with GPUs."""

from typing import Final

from components.config import Exporter
from components.manifests.device_plugin import GPU_TAINT
from components.manifests.parts import (
    OPS,
    Object,
    account,
    cluster_rights,
    container_security,
    field_env,
    host_path,
    http_probes,
    labels,
    metadata,
    nodes_with_any,
    rule,
    sizes,
)
from gpushare.contract import (
    EXPORTER_NAME,
    EXPORTER_PORT,
    ISOLATION_STATE,
    POD_RESOURCES_SOCKET,
    VISIBLE_BY_MOUNTS,
)

_LABELS: Final = labels(EXPORTER_NAME)
_POD_RESOURCES_FOLDER: Final = POD_RESOURCES_SOCKET.rpartition("/")[0]


def objects(settings: Exporter) -> list[Object]:
    """Account, roles and the DaemonSet."""
    return [
        account(EXPORTER_NAME),
        *cluster_rights(EXPORTER_NAME, [rule("", ["nodes", "pods"], ["list", "watch"])]),
        _daemon_set(settings),
    ]


def _daemon_set(settings: Exporter) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(EXPORTER_NAME, _LABELS),
        "spec": {
            "selector": {"matchLabels": dict(_LABELS)},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": dict(_LABELS)},
                "spec": _pod(settings),
            },
        },
    }


def _pod(settings: Exporter) -> Object:
    runtime = {"runtimeClassName": settings.runtime_class} if settings.runtime_class else {}
    return {
        "serviceAccountName": EXPORTER_NAME,
        "priorityClassName": "system-node-critical",
        **runtime,
        # The driver reports processes by the pids of the host.
        "hostPID": True,
        "tolerations": [dict(GPU_TAINT)],
        "affinity": nodes_with_any(settings.node_labels),
        "containers": [_container(settings)],
        "volumes": [
            host_path("pod-resources", f"{settings.kubelet_root.rstrip('/')}/pod-resources", ""),
            # It is missing until a container on the node is isolated.
            host_path("isolation", ISOLATION_STATE, "DirectoryOrCreate"),
            # Requests all GPUs from NVIDIA's runtime, which accepts the variable from privileged pods only.
            host_path("all-cards", "/dev/null", ""),
        ],
    }


def _container(settings: Exporter) -> Object:
    return {
        "name": EXPORTER_NAME,
        "image": settings.image,
        "command": ["gpushare", "exporter", f"--interval-seconds={settings.interval_seconds}"],
        "env": [field_env("NODE_NAME", "spec.nodeName"), {"name": "OPS_PORT", "value": str(EXPORTER_PORT)}],
        "ports": [{"name": OPS, "containerPort": EXPORTER_PORT}],
        **http_probes("/healthz", "/readyz", OPS),
        "resources": sizes(settings.cpu, settings.memory),
        # The kubelet's socket belongs to root.
        "securityContext": {"runAsUser": 0, **container_security()},
        "volumeMounts": [
            {"name": "pod-resources", "mountPath": _POD_RESOURCES_FOLDER, "readOnly": True},
            {"name": "isolation", "mountPath": ISOLATION_STATE, "readOnly": True},
            {"name": "all-cards", "mountPath": f"{VISIBLE_BY_MOUNTS}/all", "readOnly": True},
        ],
    }
