"""Checks the result on a host, from its deep report and its Node object.

What belongs here: one pure function per check. What does not: reading (module ``host_report``,
kubernetes.core), and checks before any change (``preflight``). Every problem names the role or command that
fixes it, and is a failure unless the node works without the fix.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import (
    Check,
    Document,
    Level,
    judged,
    version,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.device_lists import decided, uses_cdi
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.contract import (
    ANN_CARDS,
    ISOLATION_STATE,
    LABEL_NO_ISOLATION,
    LABEL_OPERATOR_PLUGIN,
    RESOURCE_MEM,
    RESOURCE_WHOLE_GPU,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model.modes import LIMITING, mode_of
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model.quantity import parse_quantity
from ansible_collections.gpushare.nodes.plugins.plugin_utils.node_mode import MODE_LABELS, shares
from ansible_collections.gpushare.nodes.plugins.plugin_utils.pci_cards import in_mig_mode, of_host
from ansible_collections.gpushare.nodes.plugins.plugin_utils.runtimes import (
    ENGINES,
    HOW_TO,
    UNMANAGED,
    of_kubelet,
    runtime_of,
    unit_state,
)

Problems = Iterator[tuple[Level, str]]
_PLUGIN_IMAGE: Final = re.compile(r"/(k8s-device-plugin|nvidia-[a-z-]*device-plugin)[:@]")
"""Of NVIDIA and, with the second name, of GKE."""
_RUNS_KUBELET: Final = re.compile(r"(k3s|rke2)\b")
"""Services of the engine that also run the kubelet."""
_DRIVER_SOURCE: Final = "the driver where it is installed from, such as the driver pods of the GPU Operator"
_SETTINGS: Final = (
    ("volume_mounts", "accept-nvidia-visible-devices-as-volume-mounts", True),
    ("envvar_unprivileged", "accept-nvidia-visible-devices-envvar-when-unprivileged", False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Requirements: the variables of the role validate, without their prefix.

    ``plugins`` are the DaemonSets of NVIDIA's device plugin in the cluster, ``namespace/name``.
    """

    node: str
    driver_minimum: str
    driver_version: str
    driver_state: str
    container_runtime: str
    container_runtime_state: str
    container_runtime_engine: str
    container_runtime_engine_service: str
    library_folder: str
    device_list_strategy: str
    services: list[str]
    labels: dict[str, str]
    node_name: str
    cluster: bool
    plugins: list[str]


def checks(report: Document, required: Requirements, node: Document, extender: Document) -> list[Check]:
    """Return every check of a host, in the order of the table's columns.

    ``node`` is the Node object, empty if there is none; ``extender`` is the result of the module uri for the
    extender, called from this host, empty if it was not called.
    """
    of_gpus = () if required.node == "plain" else (_driver, _cards, _runtime, _toolkit)
    judgements = [judge(report, required) for judge in (*of_gpus, _services)]
    if required.cluster:
        judgements.append(_node(report, required, node))
    if required.cluster and node and required.node != "plain":
        judgements.append(_offer(report, required, node))
    if required.cluster and required.node == "share" and _is_limiting(node):
        judgements += [_regions(report), _library(report, required)]
    if extender:
        judgements.append(_extender(extender))
    return judgements


def _driver(report: Document, required: Requirements) -> Check:
    return judged("driver", report["asked"]["smi"]["version"] or "none", _driver_problems(report, required))


def _driver_problems(report: Document, required: Requirements) -> Problems:
    smi, loaded = report["asked"]["smi"], report["driver"]["loaded"]
    on_disk = report["programs"]["nvidia-module"]
    unmanaged = required.driver_state == UNMANAGED
    change = f"change {_DRIVER_SOURCE}" if unmanaged else "run playbook upgrade_driver"
    if smi["error"]:
        fix = f"check {_DRIVER_SOURCE}" if unmanaged else "run the role nvidia_driver"
        yield Level.FAIL, f"nvidia-smi failed ({smi['error']}): {fix}"
    elif version(smi["version"]) < version(required.driver_minimum):
        yield Level.FAIL, f"{smi['version']} is older than {required.driver_minimum}: {change}"
    elif not f"{smi['version']}.".startswith(f"{required.driver_version}.") and required.driver_version:
        yield Level.FAIL, f"{smi['version']} is not {required.driver_version}: {change}"
    if loaded and on_disk and loaded != on_disk:
        yield Level.FAIL, f"{loaded} is loaded and {on_disk} is installed: reboot the host"


def _cards(report: Document, required: Requirements) -> Check:
    reported, present = report["asked"]["smi"]["cards"], len(of_host(report["gpus"]))
    found = f"{reported} of {present}"
    if reported == present and present:
        return judged("cards", found, _mig_problems(report, required))
    if present:
        problem = (
            f"the driver reports {reported} of the {present} GPUs on the PCI bus: check `dmesg | grep NVRM`"
        )
    else:
        problem = f"no NVIDIA GPU {_why_no_gpu(report)}"
    return Check("cards", Level.FAIL, found, problem)


def _mig_problems(report: Document, required: Requirements) -> Problems:
    partitioned = in_mig_mode(report["gpus"], report["mig"]) if required.node == "share" else []
    yield from ((Level.WARN, text) for text in partitioned)


def _why_no_gpu(report: Document) -> str:
    if report["gpus"]:
        return "that is not assigned to virtual machines: detach one from vfio-pci (`lspci -nnk -d 10de:`)"
    return "on the PCI bus: check `lspci -nn -d 10de:` and the PCI passthrough of the host"


def _runtime(report: Document, required: Requirements) -> Check:
    runtime = _used_runtime(report, required)
    installed = report["programs"][runtime] if runtime else None
    if not runtime or not installed:
        problem = f"no {runtime or 'container runtime'} is installed: run the role container_runtime"
        return Check("runtime", Level.FAIL, "none", problem)
    return judged("runtime", f"{runtime} {installed}", _runtime_problems(report, runtime, required))


def _used_runtime(report: Document, required: Requirements) -> str | None:
    """Prefer an engine of another product, whose kubelet has no endpoint in the report."""
    is_described = required.container_runtime == "auto" and required.container_runtime_engine_service
    if is_described and not of_kubelet(report):
        return next(name for name, engine in ENGINES.items() if engine == required.container_runtime_engine)
    return runtime_of(report, required.container_runtime)


def _runtime_problems(report: Document, runtime: str, required: Requirements) -> Problems:
    described = ENGINES[runtime] == required.container_runtime_engine
    unit = (required.container_runtime_engine_service if described else "") or ENGINES[runtime]
    state, asked = unit_state(report, unit), report["asked"]
    if state != "active":
        yield Level.FAIL, f"its service {unit} is {state}: journalctl -u {unit}"
    passed = decided(report, required.device_list_strategy, required.container_runtime)
    has_cdi = report["runtimes"]["cdi"] or uses_cdi(passed)
    if not report["runtimes"][runtime] and not has_cdi:
        text = f"the configuration of {runtime} lacks NVIDIA's runtime, and there is no CDI specification"
        yield Level.FAIL, f"{text}: {_toolkit_fix(required)}"
    elif report["toolkit"]["mode"] == "cdi" and not has_cdi:
        text = "NVIDIA's runtime has mode cdi, and there is no CDI specification, so containers get no GPU"
        yield Level.FAIL, f"{text}: write one ({HOW_TO})"
    elif runtime == "docker" and asked["docker"] and "nvidia" not in asked["docker"]["runtimes"]:
        yield Level.FAIL, "the docker daemon does not use NVIDIA's runtime, which is configured: restart it"
    elif runtime == "docker" and asked["docker"] and asked["docker"]["default"] != "nvidia":
        default = asked["docker"]["default"]
        yield Level.FAIL, f"docker's default runtime is {default}, not nvidia: {_toolkit_fix(required)}"
    cli, present = asked["container_cli"], len(of_host(report["gpus"]))
    if cli and cli["error"]:
        yield Level.FAIL, f"containers would get no GPU: nvidia-container-cli failed ({cli['error']})"
    elif cli and cli["cards"] != present:
        yield Level.FAIL, f"containers can use {cli['cards']} of {present} GPUs"


def _toolkit_fix(required: Requirements) -> str:
    unmanaged = required.container_runtime_state == UNMANAGED
    return f"set it in the ClusterPolicy ({HOW_TO})" if unmanaged else "run the role container_runtime"


def _toolkit(report: Document, required: Requirements) -> Check:
    found = report["programs"]["nvidia-ctk"]
    if not found:
        unmanaged = required.container_runtime_state == UNMANAGED
        fix = "check the toolkit pods of the GPU Operator" if unmanaged else "run the role container_runtime"
        problem = f"NVIDIA's container toolkit is not installed: {fix}"
        return Check("toolkit", Level.FAIL, "none", problem)
    return judged("toolkit", found, _toolkit_problems(report, required))


def _toolkit_problems(report: Document, required: Requirements) -> Problems:
    """Its settings; with CDI, only pods that request no units use them."""
    by_cdi = uses_cdi(decided(report, required.device_list_strategy, required.container_runtime))
    for name, key, wanted in _SETTINGS:
        text = f"{key} is not {str(wanted).lower()}"
        if report["toolkit"][name] is wanted or (by_cdi and wanted):
            continue
        if by_cdi:
            yield Level.WARN, f"{text}, so pods without units can select GPUs: {_toolkit_fix(required)}"
        else:
            yield Level.FAIL, f"{text}: {_toolkit_fix(required)}"


def _services(report: Document, required: Requirements) -> Check:
    engine = required.container_runtime_engine_service
    runs_kubelet = _RUNS_KUBELET.match(engine)
    units = [engine if unit == "kubelet" and runs_kubelet else unit for unit in required.services]
    states = {unit: unit_state(report, unit) for unit in units}
    problems = [
        (Level.FAIL, f"service {unit} is {state}: journalctl -u {unit}")
        for unit, state in states.items()
        if state != "active"
    ]
    return judged("services", f"{len(states) - len(problems)} of {len(states)}", problems)


def _node(report: Document, required: Requirements, node: Document) -> Check:
    del report
    if not node:
        problem = f"the cluster has no node {required.node_name}: join the host, or set validate_node_name"
        return Check("node", Level.FAIL, "absent", problem)
    ready = _is_ready(node)
    return judged("node", "ready" if ready else "not ready", _node_problems(required, node, ready=ready))


def _is_ready(node: Document) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _node_problems(required: Requirements, node: Document, *, ready: bool) -> Problems:
    name, labels = required.node_name, node["metadata"].get("labels") or {}
    if not ready:
        yield Level.FAIL, f"node {name} is not Ready: kubectl describe node {name}"
    if node.get("spec", {}).get("unschedulable"):
        yield Level.FAIL, f"node {name} is cordoned: kubectl uncordon {name}"
    if required.node != "plain" and shares(labels) != (required.node == "share"):
        found = ", ".join(f"{key}={labels[key]}" for key in MODE_LABELS if key in labels) or "none"
        means, wanted = ("whole", "shared") if required.node == "share" else ("shared", "whole")
        yield (
            Level.FAIL,
            f"its mode labels ({found}) mean {means} GPUs, not {wanted} GPUs: run the role node_labels",
        )
    for key, wanted in required.labels.items():
        if labels.get(key) != wanted:
            has = f"is {labels[key]}" if key in labels else "is missing"
            yield Level.FAIL, f"label {key} {has}, not {wanted}: set it with node_labels_more"


def _offer(report: Document, required: Requirements, node: Document) -> Check:
    amounts = node.get("status", {}).get("allocatable") or {}
    resource = RESOURCE_MEM if required.node == "share" else RESOURCE_WHOLE_GPU
    found = f"{amounts.get(resource, '0')} {resource}"
    return judged("offer", found, _offer_problems(report, required, node, amounts))


def _offer_problems(
    report: Document, required: Requirements, node: Document, amounts: dict[str, Any]
) -> Problems:
    wanted, other = RESOURCE_MEM, RESOURCE_WHOLE_GPU
    if required.node == "whole":
        wanted, other = other, wanted
    plugin = (node["metadata"].get("labels") or {}).get(LABEL_OPERATOR_PLUGIN)
    if parse_quantity(amounts.get(wanted, 0)) == 0:
        yield Level.FAIL, f"the node offers no {wanted}: {_why_no_offer(required, plugin)}"
    if parse_quantity(amounts.get(other, 0)) > 0:
        text = f"the node also offers {other}, so GPUs can be allocated twice"
        yield Level.FAIL, f"{text}: {_how_to_stop(required, plugin)}"
    published = (node.get("metadata", {}).get("annotations") or {}).get(ANN_CARDS)
    if required.node == "share" and published is not None:
        shared = len(of_host(report["gpus"])) - len(report["mig"] or ())
        yield from _published_problems(published, shared)


def _published_problems(published: str, expected: int) -> Problems:
    count = published_cards(published)
    if count is None:
        text = f"annotation {ANN_CARDS} is not a valid list of GPUs: {published!r:.80}"
        yield Level.FAIL, f"{text}; check the log of the node agent, which writes it"
    elif count != expected:
        yield Level.FAIL, f"the node agent shares {count} of {expected} GPUs: check its log and events"


def _why_no_offer(required: Requirements, plugin: str | None) -> str:
    """``plugin`` is the value of the GPU Operator's label, None without it."""
    if required.node == "whole" and plugin not in (None, "", "true"):
        return (
            f"label {LABEL_OPERATOR_PLUGIN}={plugin} keeps the plugin of the GPU Operator off: "
            f"kubectl label node {required.node_name} {LABEL_OPERATOR_PLUGIN}=true --overwrite"
        )
    return "check the pod and the log of its device plugin"


def _how_to_stop(required: Requirements, plugin: str | None) -> str:
    if required.node == "share" and plugin == "true":
        return (
            "the GPU Operator runs NVIDIA's plugin on it: run the role node_labels, or "
            f"kubectl label node {required.node_name} {LABEL_OPERATOR_PLUGIN}=false --overwrite"
        )
    if required.node == "share" and required.plugins:
        sets = ", ".join(required.plugins)
        return f"exclude shared nodes from DaemonSet {sets} with a node affinity ({HOW_TO})"
    return "run playbook switch_mode"


def plugin_daemon_sets(found: list[Document]) -> list[str]:
    """Return NVIDIA's device plugins among the DaemonSets of a cluster, without that of the GPU Operator.

    The operator's has a node selector, so that the labels of a node decide.
    """
    return sorted(
        f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        for each in found
        if LABEL_OPERATOR_PLUGIN not in (_pod_of(each).get("nodeSelector") or {})
        and any(_PLUGIN_IMAGE.search(container["image"]) for container in _pod_of(each)["containers"])
    )


def _pod_of(daemon_set: Document) -> Document:
    pod: Document = daemon_set["spec"]["template"]["spec"]
    return pod


def published_cards(text: str) -> int | None:
    """Return the number of GPUs in the annotation, None if it is invalid.

    ``gpushare.model.cards`` defines the format. Its decoder needs a library beside ansible-core, so only the
    required keys are checked.
    """
    try:
        cards = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(cards, list) or not all(map(_is_card, cards)):
        return None
    return len(cards) if len({card["index"] for card in cards}) == len(cards) else None


def _is_card(card: object) -> bool:
    values = [card.get(key) for key in ("index", "units")] if isinstance(card, dict) else [None]
    return all(type(value) is int and value >= 0 for value in values)


def _is_limiting(node: Document) -> bool:
    labels = node.get("metadata", {}).get("labels") or {}
    mode, problem = mode_of(labels)
    return mode in LIMITING and not problem and labels.get(LABEL_NO_ISOLATION) != "true"


def _regions(report: Document) -> Check:
    """A warning, because the limits hold: the agent reports the same as degraded mode."""
    if report["regions_mounted"]:
        return Check("regions", Level.OK, "separate")
    problem = (
        f"{ISOLATION_STATE} is not a separate filesystem, so a container can fill /run of the host: run the "
        "role container_runtime, and reboot the host if the role says that the folder is in use"
    )
    return Check("regions", Level.WARN, "in /run", problem)


def _library(report: Document, required: Requirements) -> Check:
    """A failure: on such a mount no container is limited, or the library is not installed."""
    mount, folder = report["library_mount"], required.library_folder
    found = [option for option in ("ro", "noexec") if option in (mount or {}).get("options", ())]
    if not found:
        return Check("library", Level.OK, folder)
    option = " and ".join(found)
    problem = (
        f"{folder} is on {mount['point']}, which is mounted {option}: set container_runtime_library_folder, "
        "and isolation.folder of the stack or chart, to a folder that can be written and executed from"
    )
    return Check("library", Level.FAIL, option, problem)


def _extender(answer: Document) -> Check:
    if answer.get("status") == 200:  # noqa: PLR2004 - HTTP
        return Check("extender", Level.OK, "answers")
    problem = (
        f"{answer.get('url', 'the extender')} does not answer from this host ({answer.get('msg', '')}): "
        "check the pods of the extender and scheduler_extender_urls"
    )
    return Check("extender", Level.FAIL, "no answer", problem)
