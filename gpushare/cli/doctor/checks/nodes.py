"""Checks of nodes and their GPUs. Pure."""

from collections.abc import Mapping

from gpushare.cli.doctor.installation import (
    Installation,
    required,
)
from gpushare.cli.doctor.verdict import CheckVerdict, check, failed, ok, warning
from gpushare.contract import (
    AGENT_NAME,
    ANN_CARDS,
    LABEL_OPERATOR_PLUGIN,
    RESOURCE_COUNT,
    RESOURCE_MEM,
    RESOURCE_TIME_SLICED_GPU,
    RESOURCE_WHOLE_GPU,
    SYSTEM_NAMESPACE,
)
from gpushare.model.cards import parse_cards
from gpushare.model.demand import Malformed
from gpushare.overview.objects import ClusterNode
from gpushare.overview.words import counted, listed

_AGENT_PODS = f"kubectl get pods -n {SYSTEM_NAMESPACE} -l component={AGENT_NAME} -o wide"
_NODE_SELECTORS = (
    f"kubectl get daemonsets -n {SYSTEM_NAMESPACE} -l component={AGENT_NAME} "
    "-o custom-columns=NAME:.metadata.name,LABELS:.spec.template.spec.nodeSelector"
)


@check("sharing-nodes", "Nodes that share GPUs")
def sharing_nodes(seen: Installation) -> CheckVerdict:
    """Whether any node shares its GPUs, and all that do are ready."""
    all_nodes = required(seen.nodes)
    nodes = seen.sharing
    if not nodes:
        problem = "no node shares its GPUs: none offers units, and no label selects one; label nodes as the "
        return failed(f"{problem}nodeSelector of a DaemonSet of the agent says", _NODE_SELECTORS)
    if down := [node.name for node in nodes if not node.ready]:
        return failed(f"not ready: {listed(down)}", f"kubectl describe node {down[0]}")
    return ok(f"{counted(len(nodes), 'node')} of {len(all_nodes)}")


@check("agent-registered", "Units of the nodes")
def registered(seen: Installation) -> CheckVerdict:
    """Whether an agent has registered on each node that shares."""
    required(seen.nodes)
    without = [node.name for node in seen.sharing if not node.capacity(RESOURCE_MEM)]
    if not without:
        return ok(f"{counted(len(seen.sharing), 'node')} with {RESOURCE_MEM}")
    ready = {pod.spec.node_name: pod.ready for pod in seen.pods_of(AGENT_NAME)}
    pods = f"{_AGENT_PODS} --field-selector spec.nodeName={without[0]}"
    command = pods if without[0] in ready else _NODE_SELECTORS
    states = [_state(node, ready) for node in seen.sharing if node.name in without]
    return failed(f"labelled, but they offer no {RESOURCE_MEM}: {listed(states)}", command)


def _state(node: ClusterNode, ready: Mapping[str, bool]) -> str:
    """A node with the state of its agent, and why it takes no pods if the agent has published that."""
    states = {True: "the agent is ready", False: "the agent is not ready", None: "no agent"}
    closed = node.closed_by_agent
    state = states[ready.get(node.name)]
    return f"{node.name} ({state}: {closed})" if closed else f"{node.name} ({state})"


@check("published-gpus", "Published GPUs")
def published(seen: Installation) -> CheckVerdict:
    """Whether each node publishes its GPUs, and as many as the kubelet counts."""
    required(seen.nodes)
    nodes = [node for node in seen.sharing if node.capacity(RESOURCE_MEM)]
    wrong = [f"{node.name}: {text}" for node in nodes if (text := _contradiction(node))]
    if wrong:
        return failed(listed(wrong), _AGENT_PODS)
    if old := [node.name for node in nodes if node.cards_text is None]:
        return warning(
            f"no annotation {ANN_CARDS}, as with the Aliyun plugin; GPUs count as equal: {listed(old)}",
            _AGENT_PODS,
        )
    return ok(f"{counted(len(nodes), 'node')} with {ANN_CARDS}")


def _contradiction(node: ClusterNode) -> str:
    """What is wrong with the published GPUs; empty if nothing is."""
    text = node.cards_text
    if text is None:
        return ""
    cards = parse_cards(text)
    if isinstance(cards, Malformed):
        return f"annotation {ANN_CARDS}: {cards.problem}"
    count, units = node.capacity(RESOURCE_COUNT), sum(card.units for card in cards)
    if count != len(cards):
        return f"{ANN_CARDS} lists {len(cards)} GPUs, {RESOURCE_COUNT} is {count}"
    if units != node.capacity(RESOURCE_MEM):
        return f"{ANN_CARDS} has {units} units, {RESOURCE_MEM} is {node.capacity(RESOURCE_MEM)}"
    return ""


@check("other-plugins", "Other device plugins")
def other_plugins(seen: Installation) -> CheckVerdict:
    """Whether another device plugin serves the GPUs of a node that shares."""
    required(seen.nodes)
    for node in seen.sharing:
        for resource in (RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU):
            if count := node.allocatable(resource):
                return failed(
                    f"node {node.name} shares its GPUs, and another device plugin offers {count} of "
                    f"{resource} there",
                    _stop(node),
                )
    return ok("none on the nodes that share")


def _stop(node: ClusterNode) -> str:
    if node.labels.get(LABEL_OPERATOR_PLUGIN) == "true":
        return f"kubectl label node {node.name} {LABEL_OPERATOR_PLUGIN}=false --overwrite"
    return "kubectl get daemonsets -A | grep -i device-plugin"
