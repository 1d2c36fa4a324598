"""The node agent: account and roles, which all pools share, and one DaemonSet per pool."""

from collections.abc import Sequence
from typing import Final

from components.config import DevicePlugin
from components.manifests.parts import (
    OPS,
    Object,
    account_with_rights,
    container_security,
    field_env,
    host_path,
    http_probes,
    labels,
    metadata,
    rule,
    sizes,
)
from gpushare.contract import (
    AGENT_NAME,
    DEVICE_PLUGIN_FOLDER,
    ISOLATION_LIBRARIES,
    ISOLATION_STATE,
    MPS_STATE,
    POD_RESOURCES_SOCKET,
    VISIBLE_BY_MOUNTS,
)

OPS_PORT: Final = 12347
"""Port of health and metrics: the default of the agent."""
NAME: Final = "gpushare-device-plugin-ds"
_POD_RESOURCES_FOLDER: Final = POD_RESOURCES_SOCKET.rpartition("/")[0]
_CGROUPS: Final = "/sys/fs/cgroup"
_CGROUPS_INSIDE: Final = f"/host{_CGROUPS}"
"""Not the path of the container's own cgroups."""
_PROC: Final = "/proc"
"""That of the host, because the pod uses the host's pid namespace."""
_KUBECONFIG_INSIDE: Final = "/etc/kubernetes/kubelet.conf"
GPU_TAINT: Final[Object] = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
"""Toleration of the taint that keeps other pods off GPU nodes."""


def named(name: str, pool: str) -> str:
    """The name of an object of a pool."""
    return f"{name}-{pool}" if pool else name


def objects(plugins: Sequence[DevicePlugin]) -> list[Object]:
    """The agents of all pools and their shared objects; empty without pools."""
    return [*shared(), *map(daemon_set, plugins)] if plugins else []


def shared() -> list[Object]:
    """Account and roles for the agents of all pools."""
    return account_with_rights(
        AGENT_NAME,
        cluster=[
            rule("", ["nodes", "nodes/proxy"], ["get", "list", "watch"]),
            rule("", ["events"], ["create", "patch"]),
            rule("", ["pods"], ["update", "patch", "get", "list", "watch"]),
            rule("", ["nodes/status"], ["patch", "update"]),
        ],
        system=[rule("", ["configmaps"], ["create", "patch"])],
    )


def daemon_set(plugin: DevicePlugin) -> Object:
    """The agent on one pool."""
    name = named(NAME, plugin.name)
    marks = {**labels(AGENT_NAME), "name": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name, marks),
        "spec": {
            "selector": {"matchLabels": marks},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {"metadata": {"labels": dict(marks)}, "spec": _pod(plugin)},
        },
    }


def _pod(plugin: DevicePlugin) -> Object:
    runtime = {"runtimeClassName": plugin.runtime_class} if plugin.runtime_class else {}
    volumes, mounts = _volumes(plugin)
    return {
        "serviceAccountName": AGENT_NAME,
        "priorityClassName": "system-node-critical",
        **runtime,
        "hostNetwork": True,
        # The driver reports processes by the pids of the host.
        "hostPID": True,
        "nodeSelector": dict(plugin.node_selector),
        "tolerations": [dict(GPU_TAINT)],
        "containers": [{**_container(plugin), "volumeMounts": mounts}],
        "volumes": volumes,
    }


def _container(plugin: DevicePlugin) -> Object:
    kubeconfig = [{"name": "KUBECONFIG", "value": _KUBECONFIG_INSIDE}] if plugin.kubeconfig else []
    return {
        "name": "gpushare",
        "image": plugin.image,
        "command": [
            "gpushare-device-plugin-v2",
            "-logtostderr",
            "--v=5",
            f"--memory-unit={plugin.memory_unit}",
            f"--device-list-strategy={plugin.device_list_strategy}",
            f"--cgroup-root={_CGROUPS_INSIDE}",
            f"--proc-root={_PROC}",
        ],
        "env": [
            field_env("NODE_NAME", "spec.nodeName"),
            field_env("POD_NAME", "metadata.name"),
            {"name": "OPS_PORT", "value": str(OPS_PORT)},
            *kubeconfig,
        ],
        "ports": [{"name": OPS, "containerPort": OPS_PORT}],
        **http_probes("/healthz", "/readyz", OPS),
        "resources": sizes(plugin.cpu, plugin.memory),
        # The kubelet's folder belongs to root.
        "securityContext": {"runAsUser": 0, **container_security()},
    }


def _volumes(plugin: DevicePlugin) -> tuple[list[Object], list[Object]]:
    """Volumes and their mounts."""
    root = plugin.kubelet_root.rstrip("/")
    shares: list[tuple[Object, str, bool]] = [
        (host_path("device-plugin", f"{root}/device-plugins", "Directory"), DEVICE_PLUGIN_FOLDER, False),
        (host_path("pod-resources", f"{root}/pod-resources", ""), _POD_RESOURCES_FOLDER, True),
        (host_path("cgroups", _CGROUPS, "Directory"), _CGROUPS_INSIDE, True),
        # At the same paths as on the node, because their content is mounted into containers by these paths.
        (host_path("isolation", ISOLATION_LIBRARIES, "DirectoryOrCreate"), ISOLATION_LIBRARIES, True),
        (host_path("isolation-state", ISOLATION_STATE, "DirectoryOrCreate"), ISOLATION_STATE, False),
        (host_path("mps", MPS_STATE, "DirectoryOrCreate"), MPS_STATE, True),
        # Requests all GPUs from NVIDIA's runtime, which accepts the variable from privileged pods only.
        (host_path("all-cards", "/dev/null", ""), f"{VISIBLE_BY_MOUNTS}/all", True),
    ]
    if plugin.kubeconfig:
        shares.append((host_path("kubeconfig", plugin.kubeconfig, "File"), _KUBECONFIG_INSIDE, True))
        # TLS needs the certificates of a kubeconfig as files.
        shares.append(({"name": "tmp", "emptyDir": {"medium": "Memory"}}, "/tmp", False))  # noqa: S108 - inside a container
    mounts = [_mount(volume["name"], path, read_only=read_only) for volume, path, read_only in shares]
    return [volume for volume, _, _ in shares], mounts


def _mount(name: str, path: str, *, read_only: bool) -> Object:
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
