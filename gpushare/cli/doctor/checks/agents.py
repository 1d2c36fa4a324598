"""Checks of what runs on nodes: agents, driver, container runtime, isolation, exporters, cgroups. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gpushare.cli.doctor.installation import Installation, Unread, required
from gpushare.cli.doctor.verdict import CheckVerdict, check, failed, ok, unknown, unread, warning
from gpushare.contract import (
    AGENT_NAME,
    ANN_DEVICE_LIST,
    EXPORTER_NAME,
    ISOLATION_INSTALLER_NAME,
    LABEL_CGPU,
    LABEL_NO_ISOLATION,
    MPS_NAME,
    RESOURCE_MEM,
    SYSTEM_NAMESPACE,
)
from gpushare.model.device_lists import ignores_cdi, strategy_in
from gpushare.model.modes import LIMITING, Mode, mode_of
from gpushare.model.options import DeviceListChoice, DeviceListStrategy
from gpushare.monitoring.catalogue import (
    PLUGIN_DEGRADED,
    PLUGIN_NVML_UP,
    PLUGIN_REGISTERED,
    SOURCE_UP,
    Metric,
)
from gpushare.overview.objects import ClusterNode
from gpushare.overview.words import counted, listed

_DRIVER_LABELS: Final = ("nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.driver.major")
"""Labels of GPU Feature Discovery, new and old."""
_GPU_ERROR: Final = re.compile(r"nvidia|cdi|libgpushare|device", re.IGNORECASE)
_RUNTIME_REASONS: Final = ("CreateContainerError", "RunContainerError", "StartError")


def _logs(component: str) -> str:
    return f"kubectl logs -n {SYSTEM_NAMESPACE} -l component={component} --tail=50"


def _zero(seen: Installation, component: str, metric: Metric) -> list[str]:
    """The nodes where a metric is 0."""
    found = seen.values(component, metric)
    return sorted({pod.spec.node_name for pod, sample in found if sample.number == 0})


@check("agents", "Node agents")
def agents(seen: Installation) -> CheckVerdict:
    """Whether the agents are registered with their kubelets and have all rights."""
    seen.require_page(AGENT_NAME)
    if nodes := _zero(seen, AGENT_NAME, PLUGIN_REGISTERED):
        return failed(f"not registered with the kubelet of {listed(nodes)}", _logs(AGENT_NAME))
    found = seen.values(AGENT_NAME, PLUGIN_DEGRADED)
    missing = sorted({sample.labels.get("right", "") for _, sample in found if sample.number})
    if missing:
        return warning(f"degraded, because this is missing: {listed(missing)}", _logs(AGENT_NAME))
    asked = {pod.name for pod, _ in seen.values(AGENT_NAME, PLUGIN_REGISTERED)}
    return ok(f"{counted(len(asked), 'agent')} asked, all registered")


@check("driver", "Driver")
def driver(seen: Installation) -> CheckVerdict:
    """Whether the driver responds, and its versions."""
    seen.require_page(AGENT_NAME)
    if nodes := _zero(seen, AGENT_NAME, PLUGIN_NVML_UP):
        return failed(f"NVML does not respond on {listed(nodes)}", f"on node {nodes[0]}: nvidia-smi")
    versions = sorted({version for node in seen.sharing if (version := _driver(node))})
    if not versions:
        return ok("NVML responds; GPU Feature Discovery, which labels nodes with the version, does not run")
    text = f"NVML responds; version {listed(versions)}"
    return warning(f"{text}: nodes differ") if len(versions) > 1 else ok(text)


def _driver(node: ClusterNode) -> str:
    labels = node.labels
    return next((labels[key] for key in _DRIVER_LABELS if key in labels), "")


@check("container-runtime", "Container runtime")
def container_runtime(seen: Installation) -> CheckVerdict:
    """Whether containers can get their GPUs: how the agents pass them, and pods that run."""
    pods = required(seen.pods)
    if old := _kubelets_without_cdi(seen):
        return failed(
            f"the agent passes GPUs as CDI devices, which the kubelet of {listed(old)} ignores",
            f"deploy the agent with deviceListStrategy: {DeviceListChoice.AUTO}",
        )
    for pod, details in pods:
        for text in details.waiting:
            if any(reason in text for reason in _RUNTIME_REASONS) and _GPU_ERROR.search(text):
                return failed(
                    f"pod {pod.full_name}: {text}", f"kubectl describe pod -n {pod.namespace} {pod.name}"
                )
    running = sum(details.status.phase == "Running" for pod, details in pods if pod.node)
    by_cdi = _by_cdi(seen)
    if running or all(node.name in by_cdi for node in seen.sharing):
        return ok("; ".join([f"{counted(running, 'pod')} with units run", *_device_lists(seen)]))
    return unknown(
        "no pod with units runs, and the mode of NVIDIA's container toolkit is visible on the node only; "
        + "; ".join(_device_lists(seen)),
        "ansible-playbook -i INVENTORY gpushare.nodes.validate, or on a node: nvidia-ctk info",
    )


def _device_lists(seen: Installation) -> Sequence[str]:
    """How containers get their GPUs, and why, with the nodes."""
    nodes: dict[str, list[str]] = {}
    for node in seen.sharing:
        nodes.setdefault(node.device_list or "not published by its agent", []).append(node.name)
    return [f"GPUs of {listed(sorted(names))}: {text}" for text, names in sorted(nodes.items())]


def _by_cdi(seen: Installation) -> set[str]:
    """Nodes whose containers get their GPUs by CDI."""
    return {node.name for node in seen.sharing if strategy_in(node.device_list) == DeviceListStrategy.CDI}


def _set_to_cdi(seen: Installation) -> set[str]:
    """Nodes whose agent does not decide."""
    return {
        pod.spec.node_name
        for pod in seen.pods_of(AGENT_NAME)
        if any(each.flag("device-list-strategy") == DeviceListStrategy.CDI for each in pod.spec.containers)
    }


def _kubelets_without_cdi(seen: Installation) -> list[str]:
    """Nodes of agents with CDI and a kubelet that does not pass CDI devices on."""
    nodes = _set_to_cdi(seen)
    return [
        node.name
        for node in seen.sharing
        if node.name in nodes and ignores_cdi(node.status.node_info.kubelet_version)
    ]


@check("isolation", "Isolation")
def isolation(seen: Installation) -> CheckVerdict:
    """Whether nodes limit containers, and have the services that enforce it."""
    required(seen.nodes)
    required(seen.system_pods)
    limiting = [(node, mode) for node in seen.sharing if (mode := _limiting_mode(node))]
    missing = [
        f"{component} on {node.name} (mode {mode})"
        for node, mode in limiting
        for component in _enforcers(mode)
        if not _ready_on(seen, component, node.name)
    ]
    if missing:
        return failed(
            f"limits are not enforced without {listed(missing)}",
            f"kubectl get pods -n {SYSTEM_NAMESPACE} -o wide"
            f" -l 'component in ({ISOLATION_INSTALLER_NAME},{MPS_NAME})'",
        )
    if unlimited := [node.name for node in seen.sharing if mode_of(node.labels)[0] not in LIMITING]:
        return warning(
            f"memory limits are not enforced on {counted(len(unlimited), 'node')}: {listed(unlimited)}",
            f"kubectl label node {unlimited[0]} {LABEL_CGPU}=true, with isolation in the stack",
        )
    disabled = len(seen.sharing) - len(limiting)
    without = f", {disabled} without limits by the label {LABEL_NO_ISOLATION}" if disabled else ""
    return ok(f"{counted(len(limiting), 'node')} with limits{without}")


def _limiting_mode(node: ClusterNode) -> Mode | None:
    """The mode of a node that limits containers; None if it does not, or an administrator switched it off."""
    labels = node.labels
    mode, _ = mode_of(labels)
    return mode if mode in LIMITING and labels.get(LABEL_NO_ISOLATION) != "true" else None


def _enforcers(mode: Mode) -> Sequence[str]:
    return (MPS_NAME,) if mode is Mode.MPS else (ISOLATION_INSTALLER_NAME,)


def _ready_on(seen: Installation, component: str, node: str) -> bool:
    return any(pod.ready and pod.spec.node_name == node for pod in seen.pods_of(component))


@check("cgroups", "Cgroups")
def cgroups(seen: Installation) -> CheckVerdict:
    """The cgroup version of each node; with version 1 the driver enforces no memory limits."""
    found = {name: version for name, version in seen.cgroups.items() if isinstance(version, int)}
    if not found:
        name, reason = _first_unread(seen.cgroups)
        return unread(reason, f"on node {name}: stat -fc %T /sys/fs/cgroup")
    old = sorted(name for name, version in found.items() if version == 1)
    if old:
        return warning(
            f"version 1, where the driver enforces no memory limits: {listed(old)}",
            "on these nodes: add systemd.unified_cgroup_hierarchy=1 to the kernel command line, then reboot",
        )
    return ok(f"version 2 on {counted(len(found), 'node')}")


def _first_unread(by_node: Mapping[str, object]) -> tuple[str, Unread]:
    """The first node whose answer could not be read, and why."""
    reasons = ((name, each) for name, each in by_node.items() if isinstance(each, Unread))
    return next(reasons, ("NAME", Unread("no node could be asked")))


@check("cpu-manager", "CPU manager")
def cpu_manager(seen: Installation) -> CheckVerdict:
    """Whether the kubelet's CPU manager may take GPUs from containers.

    With the policy ``static`` it changes the CPUs of running containers. Their runtime then sets the devices
    again that it knows: those of CDI, and not those that NVIDIA's hook has added (nvidia-docker#966).
    """
    found = {name: policy for name, policy in seen.cpu_managers.items() if isinstance(policy, str)}
    if not found:
        name, reason = _first_unread(seen.cpu_managers)
        return unread(reason, f"kubectl get --raw /api/v1/nodes/{name}/proxy/configz")
    static = sorted(name for name, policy in found.items() if policy == "static")
    if risky := sorted({*static} - _by_cdi(seen)):
        return warning(
            f"policy static: containers without CDI may lose their GPU on {listed(risky)}",
            f"deploy the agent with deviceListStrategy: {DeviceListChoice.AUTO}; the annotation "
            f"{ANN_DEVICE_LIST} of a node says why it does not use CDI",
        )
    return ok(f"policy static with CDI on {listed(static)}" if static else "not used")


@check("exporters", "Exporters")
def exporters(seen: Installation) -> CheckVerdict:
    """Whether an exporter runs on each node that shares, and reads all its sources."""
    required(seen.system_pods)
    nodes = [node.name for node in seen.sharing if node.capacity(RESOURCE_MEM)]
    missing = [name for name in nodes if not _ready_on(seen, EXPORTER_NAME, name)]
    if missing:
        return warning(
            f"no exporter is ready on {listed(missing)}: no metrics, no autoscaling",
            f"kubectl get pods -n {SYSTEM_NAMESPACE} -l component={EXPORTER_NAME} -o wide",
        )
    down = sorted(
        f"{sample.labels.get('source', '')} on {pod.spec.node_name}"
        for pod, sample in seen.values(EXPORTER_NAME, SOURCE_UP)
        if sample.number == 0
    )
    if down:
        return warning(f"cannot read {listed(down)}", _logs(EXPORTER_NAME))
    return ok(f"{counted(len(nodes), 'node')} with an exporter")
