"""Checks of nodes and their GPUs. Pure."""

from collections.abc import Mapping

from gpushare.cli.doctor.installation import (
    Installation,
    Unread,
    if_read,
    is_sharing,
    required,
)
from gpushare.cli.doctor.verdict import CheckVerdict, counted, failed, listed, ok, warning
from gpushare.contract import (
    AGENT_NAME,
    ANN_CARDS,
    ANN_CORDONED_CARDS,
    LABEL_OPERATOR_PLUGIN,
    RESOURCE_COUNT,
    RESOURCE_MEM,
    RESOURCE_TIME_SLICED_GPU,
    RESOURCE_WHOLE_GPU,
    SYSTEM_NAMESPACE,
    UNHEALTHY_PREFIX,
)
from gpushare.model.cards import parse_cards, unhealthy_map
from gpushare.model.demand import Malformed
from gpushare.model.modes import mode_of
from gpushare.overview.ledger_inputs import unhealthy_by_node, unreadable_by_node
from gpushare.overview.objects import ClusterNode
from gpushare.scheduling.book import Book, reserved_shares

_AGENT_PODS = f"kubectl get pods -n {SYSTEM_NAMESPACE} -l component={AGENT_NAME} -o wide"
_NODE_SELECTORS = (
    f"kubectl get daemonsets -n {SYSTEM_NAMESPACE} -l component={AGENT_NAME} "
    "-o custom-columns=NAME:.metadata.name,LABELS:.spec.template.spec.nodeSelector"
)


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
    return failed(f"labelled, but without {RESOURCE_MEM}: {listed(states)}", command)


def _state(node: ClusterNode, ready: Mapping[str, bool]) -> str:
    """A node with the state of its agent, and why it takes no pods if the agent has published that."""
    states = {True: "the agent is ready", False: "the agent is not ready", None: "no agent"}
    closed = node.closed_by_agent
    state = states[ready.get(node.name)]
    return f"{node.name} ({state}: {closed})" if closed else f"{node.name} ({state})"


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


def models(seen: Installation) -> CheckVerdict:
    """Whether all models of GPUs are supported."""
    books = required(seen.books)
    cards = [(usage.card, name) for name, book in books.items() for usage in book.usages]
    others = sorted({f"{card.model} on {name}" for card, name in cards if not card.is_listed})
    if others:
        return warning(
            f"no data-centre GPUs, served with the lowest score: {listed(others)}",
            "kubectl get nodes -L gpushare.io/unlisted-model",
        )
    return ok(listed(sorted({card.model for card, _ in cards if card.model})) or "no model is published")


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


def gpu_health(seen: Installation) -> CheckVerdict:
    """Whether all GPUs that are not cordoned are healthy, and all lists of unhealthy ones name GPUs."""
    books = required(seen.books)
    cordoned = _cordoned(seen)
    bad = [
        (name, usage.card.index)
        for name, book in sorted(books.items())
        for usage in book.usages
        if (usage.card.faulty or usage.card.index in book.unhealthy)
        and not usage.card.whole_gpu_pods
        and (name, usage.card.index) not in cordoned
    ]
    wrong = _wrong_lists(seen)
    problems = listed([*wrong.values()])
    if bad:
        node, index = bad[0]
        fault = next(each.card.fault for each in books[node].usages if each.card.index == index)
        cause = "; ".join(filter(None, (f"unhealthy: {_gpus(bad)}", fault, problems)))
        return failed(cause, f"kubectl describe node {node}; {_map_command(node)}")
    required(seen.config_maps)
    if wrong:
        return warning(problems, _map_command(next(iter(wrong))))
    return ok(counted(sum(len(book.usages) for book in books.values()), "GPU"))


def _wrong_lists(seen: Installation) -> dict[str, str]:
    """The problems of lists of unhealthy GPUs, by node."""
    if isinstance(seen.config_maps, Unread) or isinstance(seen.books, Unread):
        return {}
    books = seen.books
    absent = {
        node: f"{unhealthy_map(node)}: {node} has no GPU {min(unknown)}"
        for node, indices in unhealthy_by_node(seen.config_maps).items()
        if node in books and (unknown := indices - {usage.card.index for usage in books[node].usages})
    }
    unreadable = unreadable_by_node(seen.config_maps)
    return {node: problem for node, problem in sorted((absent | unreadable).items()) if node in books}


def _map_command(node: str) -> str:
    return f"kubectl get configmap -n {SYSTEM_NAMESPACE} {UNHEALTHY_PREFIX}{node} -o yaml"


def _cordoned(seen: Installation) -> set[tuple[str, int]]:
    nodes = if_read(seen.nodes)
    return {(node.name, index) for node in nodes for index in node.cordoned_cards}


def _gpus(found: list[tuple[str, int]]) -> str:
    return listed([f"GPU {index} of {name}" for name, index in found])


def cordoned_gpus(seen: Installation) -> CheckVerdict:
    """Whether an administrator has cordoned GPUs."""
    required(seen.nodes)
    found = sorted(_cordoned(seen))
    if not found:
        return ok("none")
    return warning(f"cordoned: {_gpus(found)}", f"kubectl annotate node {found[0][0]} {ANN_CORDONED_CARDS}-")


def overcommitted_gpus(seen: Installation) -> CheckVerdict:
    """Whether a GPU has more units reserved than it has."""
    books = required(seen.books)
    found = [(name, usage.card.index) for name, book in sorted(books.items()) for usage in book.overcommitted]
    if found:
        return failed(f"over-committed: {_gpus(found)}", f"kubectl inspect gpushare -d {found[0][0]}")
    return ok("none")


def unshared_pods(seen: Installation) -> CheckVerdict:
    """Whether pods use units of nodes whose labels say that they no longer share."""
    nodes = required(seen.nodes)
    books = required(seen.books)
    found = {node.name: text for node in nodes if (text := _unshared(node, books))}
    if not found:
        return ok("none")
    command = f"kubectl get pods -A --field-selector spec.nodeName={min(found)}"
    twice = [node for node in nodes if node.name in found and node.allocatable(RESOURCE_WHOLE_GPU)]
    return (failed if twice else warning)(listed([*found.values()]), command)


def _unshared(node: ClusterNode, books: Mapping[str, Book]) -> str | None:
    """The pods that still use units of a node that no longer shares; None without any."""
    name = node.name
    _, closed = mode_of(node.labels)
    closed = closed or (None if is_sharing(node) else "no label selects it")
    book = books.get(name)
    pods = sorted(r.pod for r in book.reservations.values() if r.demand.mem) if closed and book else []
    if not pods:
        return None
    again = f", which may be allocated again as {RESOURCE_WHOLE_GPU}"
    twice = again if node.allocatable(RESOURCE_WHOLE_GPU) else ""
    return f"{name} does not share ({closed}), and pods use its GPUs{twice}: {listed(pods)}"


def unplaced_pods(seen: Installation) -> CheckVerdict:
    """Whether pods with unknown GPUs count against every GPU of their node."""
    books = required(seen.books)
    found = sorted(pod for book in books.values() for pod in _unplaced(book))
    if found:
        return warning(
            f"the GPU is not known, so they count against every GPU of their node: {listed(found)}",
            "kubectl inspect gpushare -d",
        )
    return ok("none")


def _unplaced(book: Book) -> list[str]:
    if book.node is None or not book.node.cards:
        return []
    node = book.node
    return [r.pod for r in book.reservations.values() if r.demand.mem and reserved_shares(r, node) is None]
