"""Checks the result on a host, from its deep report and its Node object.

What belongs here: one pure function per check. What does not: reading (module ``host_report``,
kubernetes.core), and checks before any change (``preflight``). Every problem is a failure, and names the role
or command that fixes it.
"""

import json
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
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.contract import (
    ANN_CARDS,
    RESOURCE_MEM,
    RESOURCE_WHOLE_GPU,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model.quantity import parse_quantity
from ansible_collections.gpushare.nodes.plugins.plugin_utils.runtimes import (
    UNITS,
    runtime_of,
    unit_state,
)

Problems = Iterator[tuple[Level, str]]
_SETTINGS: Final = (
    ("volume_mounts", "accept-nvidia-visible-devices-as-volume-mounts", True),
    ("envvar_unprivileged", "accept-nvidia-visible-devices-envvar-when-unprivileged", False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What must hold: the variables of the role validate, without their prefix."""

    node: str
    driver_minimum: str
    driver_version: str
    container_runtime: str
    services: list[str]
    labels: dict[str, str]
    node_name: str
    cluster: bool


def checks(report: Document, terms: Terms, node: Document, extender: Document) -> list[Check]:
    """Return every check of a host, in the order of the table's columns.

    ``node`` is its object in the API, empty where there is none; ``extender`` what the module uri got
    from the extender as seen from this host, empty where it was not asked.
    """
    of_cards = () if terms.node == "plain" else (_driver, _cards, _runtime, _toolkit)
    judgements = [judge(report, terms) for judge in (*of_cards, _services)]
    if terms.cluster:
        judgements.append(_node(report, terms, node))
    if terms.cluster and node and terms.node != "plain":
        judgements.append(_offer(report, terms, node))
    if extender:
        judgements.append(_extender(extender))
    return judgements


def _driver(report: Document, terms: Terms) -> Check:
    return judged("driver", report["asked"]["smi"]["version"] or "none", _driver_problems(report, terms))


def _driver_problems(report: Document, terms: Terms) -> Problems:
    smi, loaded = report["asked"]["smi"], report["driver"]["loaded"]
    on_disk = report["programs"]["nvidia-module"]
    if smi["error"]:
        yield Level.FAIL, f"nvidia-smi does not answer ({smi['error']}): run the role nvidia_driver"
    elif version(smi["version"]) < version(terms.driver_minimum):
        yield (
            Level.FAIL,
            f"{smi['version']} is older than {terms.driver_minimum}: run playbook upgrade_driver",
        )
    elif not f"{smi['version']}.".startswith(f"{terms.driver_version}.") and terms.driver_version:
        yield Level.FAIL, f"{smi['version']} is not {terms.driver_version}: run playbook upgrade_driver"
    if loaded and on_disk and loaded != on_disk:
        yield Level.FAIL, f"{loaded} is loaded and {on_disk} installed: reboot the host"


def _cards(report: Document, terms: Terms) -> Check:
    del terms
    seen, present = report["asked"]["smi"]["cards"], len(report["gpus"])
    found = f"{seen} of {present}"
    if seen == present and present:
        return Check("cards", Level.OK, found)
    problem = (
        f"the driver sees {seen} of the {present} cards on the PCI bus: see `dmesg | grep NVRM`"
        if present
        else "no NVIDIA card on the PCI bus: look at `lspci -nn -d 10de:` and at the machine's passthrough"
    )
    return Check("cards", Level.FAIL, found, problem)


def _runtime(report: Document, terms: Terms) -> Check:
    runtime = runtime_of(report, terms.container_runtime)
    installed = report["programs"][runtime] if runtime else None
    if not runtime or not installed:
        problem = f"no {runtime or 'container runtime'} is installed: run the role container_runtime"
        return Check("runtime", Level.FAIL, "none", problem)
    return judged("runtime", f"{runtime} {installed}", _runtime_problems(report, runtime))


def _runtime_problems(report: Document, runtime: str) -> Problems:
    state, asked = unit_state(report, UNITS[runtime]), report["asked"]
    if state != "active":
        yield Level.FAIL, f"its service {UNITS[runtime]} is {state}: journalctl -u {UNITS[runtime]}"
    if not report["runtimes"][runtime] and not report["runtimes"]["cdi"]:
        text = f"{runtime}'s files do not name NVIDIA's runtime, nor is there a CDI description of the cards"
        yield Level.FAIL, f"{text}: run the role container_runtime"
    elif runtime == "docker" and asked["docker"] and "nvidia" not in asked["docker"]["runtimes"]:
        yield Level.FAIL, "the docker daemon runs without NVIDIA's runtime, which its file has: restart it"
    elif runtime == "docker" and asked["docker"] and asked["docker"]["default"] != "nvidia":
        default = asked["docker"]["default"]
        yield Level.FAIL, f"docker's default runtime is {default}, not nvidia: run the role container_runtime"
    cli = asked["container_cli"]
    if cli and cli["error"]:
        yield Level.FAIL, f"a container would see no card: nvidia-container-cli says {cli['error']}"
    elif cli and cli["cards"] != len(report["gpus"]):
        yield Level.FAIL, f"a container could be given {cli['cards']} of {len(report['gpus'])} cards"


def _toolkit(report: Document, terms: Terms) -> Check:
    del terms
    found = report["programs"]["nvidia-ctk"]
    if not found:
        problem = "NVIDIA's container toolkit is not installed: run the role container_runtime"
        return Check("toolkit", Level.FAIL, "none", problem)
    problems = (
        (Level.FAIL, f"{key} is not {str(wanted).lower()}: run the role container_runtime")
        for name, key, wanted in _SETTINGS
        if report["toolkit"][name] is not wanted
    )
    return judged("toolkit", found, problems)


def _services(report: Document, terms: Terms) -> Check:
    states = {unit: unit_state(report, unit) for unit in terms.services}
    problems = [
        (Level.FAIL, f"service {unit} is {state}: journalctl -u {unit}")
        for unit, state in states.items()
        if state != "active"
    ]
    return judged("services", f"{len(states) - len(problems)} of {len(states)}", problems)


def _node(report: Document, terms: Terms, node: Document) -> Check:
    del report
    if not node:
        problem = f"the cluster has no node {terms.node_name}: join the host, or set validate_node_name"
        return Check("node", Level.FAIL, "absent", problem)
    ready = _is_ready(node)
    return judged("node", "ready" if ready else "not ready", _node_problems(terms, node, ready=ready))


def _is_ready(node: Document) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _node_problems(terms: Terms, node: Document, *, ready: bool) -> Problems:
    name, labels = terms.node_name, node["metadata"].get("labels") or {}
    if not ready:
        yield Level.FAIL, f"node {name} is not Ready: kubectl describe node {name}"
    if node.get("spec", {}).get("unschedulable"):
        yield Level.FAIL, f"node {name} is cordoned: kubectl uncordon {name}"
    for key, wanted in terms.labels.items():
        if labels.get(key) != wanted:
            has = f"is {labels[key]}" if key in labels else "is missing"
            yield Level.FAIL, f"label {key} {has}, not {wanted}: run the role node_labels"


def _offer(report: Document, terms: Terms, node: Document) -> Check:
    amounts = node.get("status", {}).get("allocatable") or {}
    resource = RESOURCE_MEM if terms.node == "share" else RESOURCE_WHOLE_GPU
    found = f"{amounts.get(resource, '0')} {resource}"
    return judged("offer", found, _offer_problems(report, terms, node, amounts))


def _offer_problems(report: Document, terms: Terms, node: Document, amounts: dict[str, Any]) -> Problems:
    wanted, other = RESOURCE_MEM, RESOURCE_WHOLE_GPU
    if terms.node == "whole":
        wanted, other = other, wanted
    if parse_quantity(amounts.get(wanted, 0)) == 0:
        yield Level.FAIL, f"the node offers no {wanted}: look at its device plugin's pod and log"
    if parse_quantity(amounts.get(other, 0)) > 0:
        yield Level.FAIL, f"the node offers {other} too, so cards are given twice: run playbook switch_mode"
    published = (node.get("metadata", {}).get("annotations") or {}).get(ANN_CARDS)
    if terms.node == "share" and published is not None:
        yield from _published_problems(published, len(report["gpus"]))


def _published_problems(published: str, present: int) -> Problems:
    count = published_cards(published)
    if count is None:
        text = f"annotation {ANN_CARDS} cannot be read as a list of cards: {published!r:.80}"
        yield Level.FAIL, f"{text}; see the log of the node agent, which writes it"
    elif count != present:
        yield Level.FAIL, f"the node agent shares {count} of {present} cards: its log and events say why"


def published_cards(text: str) -> int | None:
    """Return how many cards the annotation lists, None where the extender could not use it.

    ``gpushare.model.cards`` defines the format. Its decoder is no part of ansible-core, so here only the
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


def _extender(answer: Document) -> Check:
    if answer.get("status") == 200:  # noqa: PLR2004 - HTTP
        return Check("extender", Level.OK, "answers")
    problem = (
        f"{answer.get('url', 'the extender')} does not answer from this host ({answer.get('msg', '')}): "
        "look at the extender's pods and at scheduler_extender_urls"
    )
    return Check("extender", Level.FAIL, "no answer", problem)
