"""DaemonSets that stop NVIDIA's plugin on shared nodes, where it is a static pod, and restore it.

The label of a node selects which of the two runs there: the value of the pool, or the value that disables
sharing. They only move one file, so they have no API permissions.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from components.config import DevicePlugin
from components.forms import modes_in
from components.manifests.device_plugin import named
from components.manifests.parts import (
    Object,
    container_security,
    daemon_set,
    host_path,
    labels,
    placement,
    rolling_update,
    sizes,
)
from gpushare.contract import LABEL_MODE
from gpushare.model.modes import Mode

EVICT: Final = "device-plugin-evict-ds"
RECOVER: Final = "device-plugin-recover-ds"
_FOLDERS: Final = {
    "manifests": ("/etc/kubernetes/manifests", "DirectoryOrCreate"),
    "backup": ("/etc/kubernetes/manifests-backup", "DirectoryOrCreate"),
}


def objects(plugins: Iterable[DevicePlugin]) -> list[Object]:
    """Two DaemonSets per pool with ``evict_recover``."""
    return [
        each
        for plugin in plugins
        if plugin.evict_recover
        for each in (
            _daemon_set(EVICT, "evict", plugin, plugin.node_selector),
            _daemon_set(RECOVER, "recover", plugin, switched_off(plugin.node_selector)),
        )
    ]


def switched_off(selector: Mapping[str, str]) -> dict[str, str]:
    """The labels of the nodes of the pool when they do not share."""
    off = {label: str(Mode.WHOLE) if label == LABEL_MODE else "false" for label in modes_in(selector)}
    return {**selector, **off}


def _daemon_set(kind: str, verb: str, plugin: DevicePlugin, selector: Mapping[str, str]) -> Object:
    name = named(kind, plugin.name)
    marks = {**labels(kind), "name": name}
    pod = {
        "automountServiceAccountToken": False,
        "nodeSelector": dict(selector),
        **placement(plugin.tolerations, plugin.priority_class),
        "containers": [_container(kind, verb, plugin)],
        "volumes": [host_path(each, path, check) for each, (path, check) in _FOLDERS.items()],
    }
    return daemon_set(name, marks, pod, rolling_update(plugin.max_unavailable))


def _container(kind: str, verb: str, plugin: DevicePlugin) -> Object:
    return {
        "name": kind.removesuffix("-ds"),
        "image": plugin.image,
        "command": ["gpushare", "node-mode", verb, "--wait"],
        "resources": sizes("50m", "64Mi"),
        # The kubelet's folder belongs to root.
        "securityContext": {"runAsUser": 0, **container_security()},
        "volumeMounts": [{"name": each, "mountPath": path} for each, (path, _) in _FOLDERS.items()],
    }
