"""DaemonSets that stop NVIDIA's plugin on shared nodes, where it is a static pod, and restore it.

The labels of a node select which of the two runs there: the first where the pool shares, the second on nodes
with GPUs that share no longer, because a label was changed or removed. They only move one file, so they have
no API permissions. The second waits until no pod shares a GPU of the node, and is not ready meanwhile.
"""

from collections.abc import Iterable
from typing import Final

from components.config import DevicePlugin
from components.manifests.device_plugin import CGROUPS, CGROUPS_INSIDE, named
from components.manifests.mode_nodes import nodes_that_share, nodes_that_share_no_longer
from components.manifests.parts import (
    POD_RESOURCES_FOLDER,
    Object,
    container_security,
    daemon_set,
    host_path,
    labels,
    placement,
    rolling_update,
    sizes,
)
from gpushare.contract import DEVICE_PLUGIN_FOLDER, NVIDIA_PLUGIN_MANIFEST

EVICT: Final = "device-plugin-evict-ds"
RECOVER: Final = "device-plugin-recover-ds"
_BACKUP: Final = "/etc/kubernetes/manifests-backup"
_FOLDERS: Final = {"manifests": "/etc/kubernetes/manifests", "backup": _BACKUP}
_IS_MOVED: Final[Object] = {
    "exec": {"command": ["test", "!", "-e", f"{_BACKUP}/{NVIDIA_PLUGIN_MANIFEST}"]},
    "periodSeconds": 5,
    "failureThreshold": 1,
}


def objects(plugins: Iterable[DevicePlugin]) -> list[Object]:
    """Two DaemonSets per pool with ``evict_recover``."""
    return [
        each
        for plugin in plugins
        if plugin.evict_recover
        for each in (
            _daemon_set(EVICT, "evict", plugin, nodes_that_share(plugin.node_selector)),
            _daemon_set(RECOVER, "recover", plugin, nodes_that_share_no_longer(plugin.node_selector)),
        )
    ]


def _daemon_set(kind: str, verb: str, plugin: DevicePlugin, nodes: Object) -> Object:
    name = named(kind, plugin.name)
    reads = _what_shares(plugin) if kind == RECOVER else []
    pod = {
        "automountServiceAccountToken": False,
        **nodes,
        **placement(plugin.tolerations, plugin.priority_class),
        "containers": [_container(kind, verb, plugin, [mount for _, mount in reads])],
        "volumes": [
            *(host_path(each, path, "DirectoryOrCreate") for each, path in _FOLDERS.items()),
            *(volume for volume, _ in reads),
        ],
    }
    return daemon_set(name, {**labels(kind), "name": name}, pod, rolling_update(plugin.max_unavailable))


def _container(kind: str, verb: str, plugin: DevicePlugin, reads: list[Object]) -> Object:
    is_recover = kind == RECOVER
    return {
        "name": kind.removesuffix("-ds"),
        "image": plugin.image,
        "command": [
            *("gpushare", "node-mode", verb, "--wait"),
            *([f"--cgroups={CGROUPS_INSIDE}"] if is_recover else []),
        ],
        "resources": sizes("50m", "64Mi"),
        # The kubelet's folder belongs to root.
        "securityContext": {"runAsUser": 0, **container_security()},
        "volumeMounts": [*({"name": each, "mountPath": path} for each, path in _FOLDERS.items()), *reads],
        **({"readinessProbe": _IS_MOVED} if is_recover else {}),
    }


def _what_shares(plugin: DevicePlugin) -> list[tuple[Object, Object]]:
    """What tells which pods share the GPUs of the node: each volume and its mount."""
    root = plugin.kubelet_root.rstrip("/")
    volumes = {
        DEVICE_PLUGIN_FOLDER: host_path("device-plugin", f"{root}/device-plugins", "Directory"),
        POD_RESOURCES_FOLDER: host_path("pod-resources", f"{root}/pod-resources", ""),
        CGROUPS_INSIDE: host_path("cgroups", CGROUPS, "Directory"),
    }
    return [
        (volume, {"name": volume["name"], "mountPath": path, "readOnly": True})
        for path, volume in volumes.items()
    ]
