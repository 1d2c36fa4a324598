"""The node agent: account and roles, which all pools share, and one DaemonSet per pool."""

from collections.abc import Sequence
from typing import Final

from components.config import DevicePlugin, Isolation
from components.manifests.mode_nodes import nodes_that_share
from components.manifests.parts import (
    ALL_GPUS,
    OPS,
    POD_RESOURCES_FOLDER,
    Object,
    account_with_rights,
    all_gpus_env,
    all_gpus_volume,
    container_security,
    daemon_set,
    driver_root_mount,
    driver_root_volume,
    field_env,
    host_path,
    http_probes,
    labels,
    placement,
    rolling_update,
    rule,
    runtime_class,
    sizes,
)
from components.options import arguments
from gpushare.contract import (
    AGENT_NAME,
    AGENT_OPS_PORT,
    DEVICE_PLUGIN_FOLDER,
    ISOLATION_STATE,
    MPS_STATE,
)
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.model.options import DeviceListChoice

NAME: Final = "gpushare-device-plugin-ds"
CGROUPS: Final = "/sys/fs/cgroup"
CGROUPS_INSIDE: Final = f"/host{CGROUPS}"
"""Not the path of the container's own cgroups."""
_PROC: Final = "/proc"
"""That of the host, because the pod uses the host's pid namespace."""
_KUBECONFIG_INSIDE: Final = "/etc/kubernetes/kubelet.conf"
_KUBELET_KNOWS_PODS: Final = KubernetesVersion(1, 33)
"""From this version on, kubelets accept the right to ``nodes/pods`` for their list of pods."""


def named(name: str, pool: str) -> str:
    """The name of an object of a pool."""
    return f"{name}-{pool}" if pool else name


def objects(
    plugins: Sequence[DevicePlugin], version: KubernetesVersion, isolation: Isolation | None
) -> list[Object]:
    """The agents of all pools and their shared objects; empty without pools."""
    if not plugins:
        return []
    query_kubelet = any(plugin.query_kubelet for plugin in plugins)
    startup_taint = any(plugin.startup_taint for plugin in plugins)
    agents = (_pool(plugin, isolation) for plugin in plugins)
    return [*shared(version, query_kubelet=query_kubelet, startup_taint=startup_taint), *agents]


def shared(version: KubernetesVersion, *, query_kubelet: bool, startup_taint: bool) -> list[Object]:
    """Account and roles for the agents of all pools."""
    kubelet = "nodes/pods" if version >= _KUBELET_KNOWS_PODS else "nodes/proxy"
    return account_with_rights(
        AGENT_NAME,
        cluster=[
            rule("", ["nodes", "pods"], ["list", "watch"]),
            # It writes annotations; with the right to `pods` it could also change images.
            rule("", ["nodes/status", "pods/status"], ["patch"]),
            rule("", ["events"], ["create"]),
            *([rule("", [kubelet], ["get"])] if query_kubelet else []),
            # Taints are in no subresource.
            *([rule("", ["nodes"], ["patch"])] if startup_taint else []),
        ],
        system=[rule("", ["configmaps"], ["create", "patch"])],
    )


def _pool(plugin: DevicePlugin, isolation: Isolation | None) -> Object:
    """The agent on one pool."""
    name = named(NAME, plugin.name)
    marks = {**labels(AGENT_NAME), "name": name}
    return daemon_set(name, marks, _pod(plugin, isolation), rolling_update(plugin.max_unavailable))


def _pod(plugin: DevicePlugin, isolation: Isolation | None) -> Object:
    volumes, mounts = _volumes(plugin, isolation)
    return {
        "serviceAccountName": AGENT_NAME,
        **runtime_class(plugin.runtime_class),
        "hostNetwork": True,
        # The driver reports processes by the pids of the host.
        "hostPID": True,
        **nodes_that_share(plugin.node_selector),
        **placement(plugin.tolerations, plugin.priority_class),
        "containers": [
            {
                **_container(plugin, isolation),
                "volumeMounts": [*mounts, *driver_root_mount(plugin.driver_root)],
            }
        ],
        "volumes": [*volumes, *driver_root_volume(plugin.driver_root)],
    }


def _container(plugin: DevicePlugin, isolation: Isolation | None) -> Object:
    kubeconfig = [{"name": "KUBECONFIG", "value": _KUBECONFIG_INSIDE}] if plugin.kubeconfig else []
    libraries = isolation.folder if isolation else None
    return {
        "name": "gpushare",
        "image": plugin.image,
        "command": [
            "gpushare-device-plugin-v2",
            "-logtostderr",
            "--v=5",
            *arguments(
                plugin,
                cgroup_root=CGROUPS_INSIDE,
                proc_root=_PROC,
                isolation_libraries=libraries,
                cdi_folders=_cdi_folders(plugin) or None,
            ),
        ],
        "env": [
            field_env("NODE_NAME", "spec.nodeName"),
            field_env("POD_NAME", "metadata.name"),
            all_gpus_env(),
            {"name": "OPS_PORT", "value": str(AGENT_OPS_PORT)},
            *kubeconfig,
        ],
        "ports": [{"name": OPS, "containerPort": AGENT_OPS_PORT}],
        **http_probes("/healthz", "/readyz", OPS),
        "resources": sizes(plugin.cpu, plugin.memory),
        # The kubelet's folder belongs to root.
        "securityContext": {"runAsUser": 0, **container_security()},
    }


def _cdi_folders(plugin: DevicePlugin) -> Sequence[str]:
    """The folders that the agent reads; none for a strategy without CDI."""
    reads = plugin.device_list_strategy in (DeviceListChoice.AUTO, DeviceListChoice.CDI)
    return plugin.cdi_folders if reads else ()


def _volumes(plugin: DevicePlugin, isolation: Isolation | None) -> tuple[list[Object], list[Object]]:
    """Volumes and their mounts."""
    root = plugin.kubelet_root.rstrip("/")
    shares: list[tuple[Object, str, bool]] = [
        (host_path("device-plugin", f"{root}/device-plugins", "Directory"), DEVICE_PLUGIN_FOLDER, False),
        (host_path("pod-resources", f"{root}/pod-resources", ""), POD_RESOURCES_FOLDER, True),
        (host_path("cgroups", CGROUPS, "Directory"), CGROUPS_INSIDE, True),
        # At the same paths as on the node, because their content is mounted into containers by these paths.
        *(_of_limits(isolation.folder) if isolation else ()),
        (host_path("mps", MPS_STATE, "DirectoryOrCreate"), MPS_STATE, True),
        (all_gpus_volume(), ALL_GPUS, True),
        *(
            (host_path(f"cdi-{number}", folder, "DirectoryOrCreate"), folder, True)
            for number, folder in enumerate(_cdi_folders(plugin))
        ),
    ]
    if plugin.kubeconfig:
        shares.append((host_path("kubeconfig", plugin.kubeconfig, "File"), _KUBECONFIG_INSIDE, True))
        # TLS needs the certificates of a kubeconfig as files.
        shares.append(({"name": "tmp", "emptyDir": {"medium": "Memory"}}, "/tmp", False))  # noqa: S108 - inside a container
    mounts = [_mount(volume["name"], path, read_only=read_only) for volume, path, read_only in shares]
    return [volume for volume, _, _ in shares], mounts


def _of_limits(libraries: str) -> tuple[tuple[Object, str, bool], ...]:
    """What an agent needs to limit containers."""
    return (
        (host_path("isolation", libraries, "DirectoryOrCreate"), libraries, True),
        (host_path("isolation-state", ISOLATION_STATE, "DirectoryOrCreate"), ISOLATION_STATE, False),
    )


def _mount(name: str, path: str, *, read_only: bool) -> Object:
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
