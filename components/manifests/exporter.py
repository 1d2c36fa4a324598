"""The exporter: account, roles and the DaemonSet on every node with GPUs."""

from typing import Final

from components.config_monitoring import Exporter
from components.manifests.parts import (
    ALL_GPUS,
    OPS,
    POD_RESOURCES_FOLDER,
    Object,
    account,
    all_gpus_env,
    all_gpus_volume,
    cluster_rights,
    container_security,
    daemon_set,
    driver_root_mount,
    driver_root_volume,
    field_env,
    host_path,
    http_probes,
    labels,
    nodes_with_any,
    placement,
    rolling_update,
    rule,
    runtime_class,
    sizes,
)
from components.options import arguments
from gpushare.contract import (
    EXPORTER_NAME,
    EXPORTER_PORT,
    ISOLATION_STATE,
)

_LABELS: Final = labels(EXPORTER_NAME)


def objects(settings: Exporter) -> list[Object]:
    """Account, roles and the DaemonSet."""
    return [
        account(EXPORTER_NAME),
        *cluster_rights(EXPORTER_NAME, [rule("", ["nodes", "pods"], ["list", "watch"])]),
        daemon_set(EXPORTER_NAME, _LABELS, _pod(settings), rolling_update(settings.max_unavailable)),
    ]


def _pod(settings: Exporter) -> Object:
    return {
        "serviceAccountName": EXPORTER_NAME,
        **runtime_class(settings.runtime_class),
        # The driver reports processes by the pids of the host.
        "hostPID": True,
        **placement(settings.tolerations, settings.priority_class),
        "affinity": nodes_with_any(settings.node_labels),
        "containers": [_container(settings)],
        "volumes": [
            host_path("pod-resources", f"{settings.kubelet_root.rstrip('/')}/pod-resources", ""),
            # It is missing until a container on the node is isolated.
            host_path("isolation", ISOLATION_STATE, "DirectoryOrCreate"),
            all_gpus_volume(),
            *driver_root_volume(settings.driver_root),
        ],
    }


def _container(settings: Exporter) -> Object:
    return {
        "name": EXPORTER_NAME,
        "image": settings.image,
        "command": ["gpushare", "exporter", *arguments(settings)],
        "env": [
            field_env("NODE_NAME", "spec.nodeName"),
            all_gpus_env(),
            {"name": "OPS_PORT", "value": str(EXPORTER_PORT)},
        ],
        "ports": [{"name": OPS, "containerPort": EXPORTER_PORT}],
        **http_probes("/healthz", "/readyz", OPS),
        "resources": sizes(settings.cpu, settings.memory),
        # The kubelet's socket belongs to root.
        "securityContext": {"runAsUser": 0, **container_security()},
        "volumeMounts": [
            {"name": "pod-resources", "mountPath": POD_RESOURCES_FOLDER, "readOnly": True},
            {"name": "isolation", "mountPath": ISOLATION_STATE, "readOnly": True},
            {"name": "all-cards", "mountPath": ALL_GPUS, "readOnly": True},
            *driver_root_mount(settings.driver_root),
        ],
    }
