"""The installer of the isolation library: a DaemonSet without API permissions."""

from typing import Final

from components.config import Isolation, Presence
from components.manifests.parts import (
    OPS,
    Object,
    container_security,
    daemon_set,
    host_path,
    http_probes,
    labels,
    nodes_with_any,
    placement,
    rolling_update,
    sizes,
)
from components.options import arguments
from gpushare.contract import (
    DEVICE_PLUGIN_FOLDER,
    ISOLATION_INSTALLER_NAME,
    ISOLATION_INSTALLER_PORT,
)

_LABELS: Final = labels(ISOLATION_INSTALLER_NAME)
_VERBS: Final = {Presence.PRESENT: "install", Presence.ABSENT: "uninstall"}


def objects(settings: Isolation) -> list[Object]:
    """The DaemonSet."""
    update = rolling_update(settings.max_unavailable)
    return [daemon_set(ISOLATION_INSTALLER_NAME, _LABELS, _pod(settings), update)]


def _pod(settings: Isolation) -> Object:
    plugins = f"{settings.kubelet_root.rstrip('/')}/device-plugins"
    return {
        "automountServiceAccountToken": False,
        **placement(settings.tolerations, settings.priority_class),
        "affinity": nodes_with_any(settings.node_labels),
        "containers": [_container(settings)],
        "volumes": [
            host_path("libraries", settings.folder, "DirectoryOrCreate"),
            host_path("device-plugins", plugins, "Directory"),
        ],
    }


def _container(settings: Isolation) -> Object:
    return {
        "name": ISOLATION_INSTALLER_NAME,
        "image": settings.image,
        "command": ["gpushare", "isolation", _VERBS[settings.state], "--wait", *arguments(settings)],
        "env": [{"name": "OPS_PORT", "value": str(ISOLATION_INSTALLER_PORT)}],
        "ports": [{"name": OPS, "containerPort": ISOLATION_INSTALLER_PORT}],
        **http_probes("/healthz", "/readyz", OPS),
        "resources": sizes(settings.cpu, settings.memory),
        # The library belongs to root, because containers must trust it.
        "securityContext": {"runAsUser": 0, **container_security()},
        "volumeMounts": [
            {"name": "libraries", "mountPath": settings.folder},
            {"name": "device-plugins", "mountPath": DEVICE_PLUGIN_FOLDER, "readOnly": True},
        ],
    }
