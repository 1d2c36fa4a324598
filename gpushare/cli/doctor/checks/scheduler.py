"""Checks of kube-scheduler: whether it is configured for the extender, and reaches it. Pure."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from gpushare.cli.doctor.installation import Installation, Unread, if_read, required
from gpushare.cli.doctor.verdict import CheckVerdict, Status, check, failed, ok, unknown, unread, warning
from gpushare.contract import (
    EXTENDER_NAME,
    EXTENDER_NODE_PORT,
    EXTENDER_PREFIX,
    MANAGED_RESOURCES,
    RESOURCE_MEM,
    SYSTEM_NAMESPACE,
)
from gpushare.kubescheduler.config import DEFAULT_URL
from gpushare.kubescheduler.static_pod import CONFIG_FLAG, FOLDER, POLICY_FLAG, PROGRAM
from gpushare.monitoring.catalogue import EXTENDER_REQUESTS
from gpushare.overview.system_pods import Container, SystemPod
from gpushare.overview.words import counted, listed

_FLAGS: Final = tuple(flag.removeprefix("--") for flag in (CONFIG_FLAG, POLICY_FLAG))
_BEST_FIRST: Final = (Status.OK, Status.WARNING, Status.UNKNOWN, Status.FAILED)
_SHOW_POD: Final = f"kubectl get pod -n {SYSTEM_NAMESPACE} -o yaml"
_SERVICE: Final = f"kubectl get service -n {SYSTEM_NAMESPACE} {EXTENDER_NAME}"


def schedulers(seen: Installation) -> list[tuple[SystemPod, Container]]:
    """The containers of kube-scheduler in kube-system, of static pods and sidecars."""
    return [
        (pod, container)
        for pod in if_read(seen.system_pods)
        for container in pod.spec.containers
        if container.name == PROGRAM or PROGRAM in container.words[:1]
    ]


def config_path(container: Container) -> str | None:
    """The file with the configuration; None without one."""
    return next((path for flag in _FLAGS if (path := container.flag(flag))), None)


def extenders_of(seen: Installation, pod: SystemPod, container: Container) -> list[Mapping[str, Any]] | None:
    """The extenders in the scheduler's configuration; None if that is not in a ConfigMap that can be read."""
    path = config_path(container)
    text = _mounted(seen, pod, container, path) if path else None
    document = None if text is None else _yaml(text)
    if document is None:
        return None
    return [each for each in document.get("extenders") or () if isinstance(each, Mapping)]


def _mounted(seen: Installation, pod: SystemPod, container: Container, path: str) -> str | None:
    """The content of a file from a mounted ConfigMap."""
    folder, _, key = path.rpartition("/")
    mount = next((each.name for each in container.volume_mounts or () if each.mount_path == folder), None)
    name = next((v.config_map.name for v in pod.spec.volumes or () if v.name == mount and v.config_map), None)
    return seen.config_map(name or "").get(key)


@check("scheduler-config", "Scheduler configuration")
def configuration(seen: Installation) -> CheckVerdict:
    """Whether the configuration of a scheduler names the extender, for the resources of gpushare."""
    required(seen.system_pods)
    found = schedulers(seen)
    if not found:
        return unknown(
            "no kube-scheduler runs as a pod here; with a managed control plane, deploy the sidecar "
            "(extender.exposure: sidecar)",
            f"kubectl get pods -n {SYSTEM_NAMESPACE} -l component={PROGRAM}",
        )
    verdicts = [_one(seen, pod, container) for pod, container in found]
    # One scheduler with the extender is enough: a sidecar stands beside the default scheduler.
    return min(verdicts, key=lambda each: _BEST_FIRST.index(each.status))


def _one(seen: Installation, pod: SystemPod, container: Container) -> CheckVerdict:
    path = config_path(container)
    if path is None:
        return failed(
            f"{pod.name} has neither {CONFIG_FLAG} nor {POLICY_FLAG}, so it does not call the extender",
            f"on node {pod.spec.node_name}: gpushare scheduler-manifest install",
        )
    extenders = extenders_of(seen, pod, container)
    if extenders is None:
        if path.startswith(f"{FOLDER}/"):
            return ok(f"{pod.name} uses {path}, which gpushare has installed")
        return unknown(
            f"{pod.name} uses {path}, a file of its node that cannot be read from here",
            f"on node {pod.spec.node_name}: grep -A20 extenders {path}",
        )
    return _entry_verdict(pod, extenders)


def _entry_verdict(pod: SystemPod, extenders: list[Mapping[str, Any]]) -> CheckVerdict:
    ours = [each for each in extenders if EXTENDER_PREFIX in str(each.get("urlPrefix", ""))]
    command = f"{_SHOW_POD} {pod.name}"
    if not ours:
        return failed(f"the configuration of {pod.name} names no extender of gpushare", command)
    entry = ours[0]
    managed = {
        str(each.get("name")) for each in entry.get("managedResources") or () if isinstance(each, Mapping)
    }
    if RESOURCE_MEM not in managed:
        return failed(f"{pod.name} calls the extender, but not for {RESOURCE_MEM}", command)
    if entry.get("ignorable"):
        return failed(
            f"{pod.name} ignores failures of the extender, so pods are bound without a GPU", command
        )
    if missing := [name for name in MANAGED_RESOURCES if name not in managed]:
        return warning(f"{pod.name} does not call the extender for {listed(missing)}", command)
    return ok(f"{pod.name} calls {entry.get('urlPrefix')}")


@check("extender-address", "Address of the extender")
def address(seen: Installation) -> CheckVerdict:
    """Whether something can answer at the address that the scheduler calls."""
    found = (
        str(entry.get("urlPrefix", ""))
        for pod, container in schedulers(seen)
        for entry in extenders_of(seen, pod, container) or ()
        if EXTENDER_PREFIX in str(entry.get("urlPrefix", ""))
    )
    if urls := list(dict.fromkeys(found)):
        return next((bad for url in urls if (bad := _unreachable(seen, url))), ok(listed(urls)))
    if not isinstance(seen.services, Unread) and _node_port(seen) == EXTENDER_NODE_PORT:
        bad = _unreachable(seen, DEFAULT_URL)
        if bad:
            return warning(f"if the scheduler is configured as documented: {bad.cause}", bad.command)
    return unknown(
        "the configured URL cannot be read from here",
        "on the node of the scheduler: curl -k URL/inspect, with its urlPrefix as URL",
    )


def _unreachable(seen: Installation, url: str) -> CheckVerdict | None:
    """Why nothing can answer at the URL; None if nothing is known against it."""
    host, port = _host_and_port(url)
    if port != EXTENDER_NODE_PORT:
        return None
    required(seen.services)
    if _node_port(seen) != port:
        return failed(f"{url} answers nothing: no Service {EXTENDER_NAME} has node port {port}", _SERVICE)
    if host in ("127.0.0.1", "localhost") and (why := _no_loopback(seen)):
        return failed(
            f"{url} answers nothing: {why}, so configure an address of the node instead",
            "gpushare scheduler-manifest install --url "
            f"http://NODE-ADDRESS:{EXTENDER_NODE_PORT}{EXTENDER_PREFIX}",
        )
    return None


def _host_and_port(url: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "", None
    return parts.hostname or "", port


def _node_port(seen: Installation) -> int | None:
    services = if_read(seen.services)
    ports = [
        port for each in services if each.metadata.name == EXTENDER_NAME for port in each.spec.ports or ()
    ]
    return next((port.node_port for port in ports if port.node_port), None)


def _no_loopback(seen: Installation) -> str:
    """Why kube-proxy serves no node port on loopback; empty if it does, or if that is not known."""
    text = seen.config_map("kube-proxy").get("config.conf")
    document = None if text is None else _yaml(text)
    if document is None:
        return ""
    mode = document.get("mode") or "iptables"
    if mode != "iptables":
        return f"kube-proxy serves node ports on loopback in mode iptables only, and its mode is {mode}"
    iptables = document.get("iptables")
    closed = isinstance(iptables, Mapping) and iptables.get("localhostNodePorts") is False
    return "kube-proxy has localhostNodePorts: false" if closed else ""


def _yaml(text: str) -> Mapping[str, Any] | None:
    """The mapping of a YAML text; None if it is none."""
    import yaml

    from gpushare.model.yaml_text import parse

    try:
        document = parse(text)
    except yaml.YAMLError:
        return None
    return document if isinstance(document, Mapping) else None


@check("extender-calls", "Calls from the scheduler")
def calls(seen: Installation) -> CheckVerdict:
    """Whether schedulers call the extender: the proof that its address is right, from their node."""
    seen.require_page(EXTENDER_NAME)
    total = sum(
        int(sample.number)
        for _, sample in seen.values(EXTENDER_NAME, EXTENDER_REQUESTS)
        if sample.labels.get("verb") == "filter"
    )
    if total:
        return ok(counted(total, "filter call"))
    if problem := seen.unread_replica(EXTENDER_NAME):
        return unread(problem)
    if waiting := seen.pending:
        return failed(
            f"no scheduler has called the extender since it started, and pods are pending "
            f"({len(waiting)}): the configured address is wrong, or another scheduler places them",
            f"kubectl describe pod -n {waiting[0].namespace} {waiting[0].name}",
        )
    return unknown("no pod has been scheduled since the extender started", "kubectl gpushare doctor --probe")
