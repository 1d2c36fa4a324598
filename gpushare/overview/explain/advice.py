"""Remedies as sentences and commands for an administrator or the pod's owner. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import structs

from gpushare.contract import (
    ANN_CORDONED_CARDS,
    LABEL_CARDS_PER_POD,
    LABEL_CGPU,
    LABEL_GPUSHARE,
    LABEL_MODE,
    LABEL_OPERATOR_PLUGIN,
    RESOURCE_MEM,
    RESOURCE_WHOLE_GPU,
    SYSTEM_NAMESPACE,
    UNHEALTHY_PREFIX,
)
from gpushare.model.demand import Demand
from gpushare.model.modes import Mode, mode_of
from gpushare.overview.explain.obstacles import NodeChecks
from gpushare.overview.objects import ClusterNode
from gpushare.scheduling.advice.remedies import Remedy, RemedyKind
from gpushare.scheduling.book import Book, reserved_shares
from gpushare.scheduling.fitting import PodRequest


@dataclass(frozen=True, slots=True)
class Advice:
    """One remedy. ``verified`` is whether the ledger confirms that the pod fits afterwards."""

    kind: str
    text: str
    command: str = ""
    node: str = ""
    pods: tuple[str, ...] = ()
    cards: tuple[int, ...] = ()
    units: int | None = None
    gpus: int | None = None
    verified: bool = True


def advice(remedy: Remedy, book: Book, pod_request: PodRequest, node: ClusterNode) -> Advice:
    """The remedy in words; ``book`` and ``node`` are those of its node."""
    match remedy.kind:
        case RemedyKind.WAIT | RemedyKind.EVICT:
            return _without_pods(remedy, book)
        case RemedyKind.END_WHOLE:
            return _without_whole(remedy, book)
        case RemedyKind.RESTORE:
            return _restored(remedy, node.cordoned_cards)
        case RemedyKind.MODE:
            return Advice(
                str(remedy.kind),
                f"switch node {remedy.node} to mode {remedy.mode}; no pod there requests {RESOURCE_MEM}",
                f"kubectl label node {remedy.node} {LABEL_MODE}={remedy.mode} --overwrite",
                remedy.node,
            )
        case RemedyKind.SHRINK:
            return _smaller(remedy, pod_request.demand)
        case RemedyKind.SPREAD:
            return _spread(remedy, pod_request.demand)


def _without_pods(remedy: Remedy, book: Book) -> Advice:
    gone = sorted((book.reservations[uid] for uid in remedy.pods), key=lambda r: r.pod)
    listed = ", ".join(f"{r.pod} ({r.demand.mem} units{_where(r.uid, book)})" for r in gone)
    names = tuple(r.pod for r in gone)
    if remedy.kind is RemedyKind.WAIT:
        return Advice(
            str(remedy.kind),
            f"wait until the terminating pods of node {remedy.node} are gone: {listed}",
            node=remedy.node,
            pods=names,
        )
    deleted = tuple(r.pod for r in gone if not r.terminating)
    return Advice(
        str(remedy.kind), f"evict from node {remedy.node}: {listed}", _deletion(deleted), remedy.node, names
    )


def _where(uid: str, book: Book) -> str:
    shares = reserved_shares(book.reservations[uid], book.node) if book.node else None
    return f" of GPU {','.join(str(index) for index, _ in shares)}" if shares else ""


def _deletion(pods: tuple[str, ...]) -> str:
    """One command per namespace; ``pods`` are ``namespace/name``."""
    by_namespace: dict[str, list[str]] = {}
    for pod in pods:
        namespace, _, name = pod.rpartition("/")
        by_namespace.setdefault(namespace, []).append(name)
    return " && ".join(
        f"kubectl delete pod{f' -n {namespace}' if namespace else ''} {' '.join(names)}"
        for namespace, names in by_namespace.items()
    )


def _without_whole(remedy: Remedy, book: Book) -> Advice:
    pods = tuple(
        dict.fromkeys(
            pod
            for usage in book.usages
            if usage.card.index in remedy.cards
            for pod in usage.card.whole_gpu_pods
        )
    )
    text = f"evict from node {remedy.node}: {', '.join(pods)}, with {_listed(remedy.cards)} as a whole GPU"
    return Advice(str(remedy.kind), text, _deletion(pods), remedy.node, pods, remedy.cards)


def _listed(cards: tuple[int, ...]) -> str:
    return f"GPU {','.join(map(str, cards))}"


def _restored(remedy: Remedy, cordoned: frozenset[int]) -> Advice:
    """Uncordon GPUs, repair others, or both."""
    to_uncordon = tuple(card for card in remedy.cards if card in cordoned)
    to_repair = tuple(card for card in remedy.cards if card not in cordoned)
    steps = [f"uncordon {_listed(to_uncordon)} of node {remedy.node}"] if to_uncordon else []
    steps += [f"repair {_listed(to_repair)} of node {remedy.node}, which is unhealthy"] if to_repair else []
    rest = sorted(cordoned - set(to_uncordon))
    value = f"={','.join(map(str, rest))} --overwrite" if rest else "-"
    command = (
        f"kubectl annotate node {remedy.node} {ANN_CORDONED_CARDS}{value}"
        if to_uncordon
        else f"kubectl get configmap -n {SYSTEM_NAMESPACE} {UNHEALTHY_PREFIX}{remedy.node} -o yaml"
    )
    return Advice(str(remedy.kind), "; ".join(steps), command, remedy.node, cards=remedy.cards)


def _smaller(remedy: Remedy, demand: Demand) -> Advice:
    each = f" on each of {demand.cards} GPUs" if demand.cards > 1 else ""
    text = (
        f"request at most {remedy.units} units of {RESOURCE_MEM}{each} instead of {demand.per_card.mem}: "
        f"node {remedy.node} has them"
    )
    return Advice(str(remedy.kind), text, node=remedy.node, units=remedy.units)


def _spread(remedy: Remedy, demand: Demand) -> Advice:
    text = (
        f"spread the pod over {remedy.gpus} GPUs, {demand.mem // remedy.gpus} units on each, with the pod "
        f'label {LABEL_CARDS_PER_POD}: "{remedy.gpus}": node {remedy.node} has them'
    )
    return Advice(str(remedy.kind), text, node=remedy.node, gpus=remedy.gpus)


def new_node(demand: Demand) -> Advice:
    """The smallest node on which the pod fits."""
    gpus = f"{demand.cards} GPUs" if demand.cards > 1 else "a GPU"
    each = " each" if demand.cards > 1 else ""
    mode = f" and the label {LABEL_MODE}={Mode.CORE_MEM}" if demand.core else ""
    choice = f", as {demand.gpus} allows" if demand.gpus else ""
    text = f"add a node with {gpus} of at least {demand.per_card.mem} units{each}{mode}{choice}"
    return Advice("add-node", text, units=demand.per_card.mem, gpus=demand.cards)


def shared_node(
    checks: NodeChecks, nodes: Mapping[str, ClusterNode], books: Mapping[str, Book], demand: Demand
) -> Advice | None:
    """A node with whole GPUs that could share them; the size of its GPUs is not known."""
    for name, node in sorted(nodes.items()):
        book = books.get(name)
        count = node.allocatable(RESOURCE_WHOLE_GPU)
        if count < demand.cards or book is None or book.usages:
            continue
        labels = node.labels
        changes = _sharing_labels(labels, demand)
        if changes and not checks.obstacles(_labelled(node, labels | changes)):
            return Advice(
                "share-node",
                f"share the GPUs of node {name}, which offers {count} of {RESOURCE_WHOLE_GPU}, "
                f"if each has at least {demand.per_card.mem} units and an agent's DaemonSet selects it",
                f"kubectl label node {name} {_as_arguments(changes)} --overwrite",
                name,
                verified=False,
            )
    return None


def _sharing_labels(labels: Mapping[str, str], demand: Demand) -> dict[str, str]:
    """The labels that make a node share its GPUs with the demand; an empty value removes the label.

    Empty for a node whose labels say so already: another device plugin runs there.
    """
    _, closed = mode_of(labels)
    chosen = (labels.get(LABEL_GPUSHARE), labels.get(LABEL_CGPU))
    if closed is None and ("true" in chosen or LABEL_MODE in labels):
        return {}
    changes = {LABEL_CGPU: "true"}
    if demand.core or LABEL_MODE in labels:
        changes[LABEL_MODE] = Mode.CORE_MEM if demand.core else Mode.CGPU
    elif labels.get(LABEL_GPUSHARE) == "false":
        changes[LABEL_GPUSHARE] = ""
    if labels.get(LABEL_OPERATOR_PLUGIN) == "true":
        changes[LABEL_OPERATOR_PLUGIN] = "false"
    return changes


def _as_arguments(changes: Mapping[str, str]) -> str:
    """The arguments of ``kubectl label``."""
    return " ".join(f"{key}={value}" if value else f"{key}-" for key, value in changes.items())


def _labelled(node: ClusterNode, labels: dict[str, str]) -> ClusterNode:
    return structs.replace(node, metadata=structs.replace(node.metadata, labels=labels))
