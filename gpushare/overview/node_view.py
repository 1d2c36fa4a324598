"""Nodes as the tools show them: GPUs, units of pods per GPU, and pending units.

Totals come from ``status.allocatable``, sizes of GPUs from the annotation ``gpushare.io/cards`` or, without
it, from allocatable ÷ count. The GPUs of a pod come from the annotation of the node agent, else from those of
the pod. Units on a GPU that the node does not have are *pending*. Unreadable values are listed in
``problems`` and never guessed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gpushare.contract import ANN_ASSIGNED_NODE, ANN_CARDS, RESOURCE_COUNT, RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.errors import InvalidRequest
from gpushare.model.annotations import known_shares, parse_assigned
from gpushare.model.cards import Card, equal_cards, parse_cards
from gpushare.model.demand import Malformed
from gpushare.model.objects import node_of
from gpushare.model.quantity import parse_quantity
from gpushare.overview.gpu_pods import PodRecord
from gpushare.overview.objects import ClusterNode
from gpushare.scheduling.placement import DEFAULT, POLICIES

_MAX_CARDS: Final = 128
_ROLE_LABEL: Final = "node-role.kubernetes.io/"
_ROLE_ALIASES: Final = {"control-plane": "master"}
"""Kubernetes renamed the label in 1.20; older scripts look for ``master``."""


class GpuCount(NamedTuple):
    """Whole GPUs of a node. On a sharing node ``allocated`` counts every GPU in use."""

    total: int
    allocated: int
    unhealthy: int


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod on its node: requested units, units per GPU, pending units, and number of whole GPUs.

    ``whole_gpus`` are units by GPU index that it uses as a whole GPU on a sharing node.
    """

    uid: str
    namespace: str
    name: str
    units: int
    cards: Mapping[int, int]
    pending: int
    whole_cards: int
    whole_gpus: Mapping[int, int]

    def on_card(self, index: int) -> int:
        """Units on one GPU, shared or as a whole GPU."""
        return self.cards.get(index, 0) + self.whole_gpus.get(index, 0)


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node and its pods, sorted by namespace and name. ``total`` is in units, 0 if it does not share.

    ``described`` is whether the node agent published its GPUs; else model, UUID and health are unknown.
    """

    name: str
    address: str
    roles: tuple[str, ...]
    ready: bool
    total: int
    cards: tuple[Card, ...]
    described: bool
    pods: tuple[PodView, ...]
    mode: str
    policy: str
    not_sharing: str | None
    whole_cards: GpuCount
    problems: tuple[str, ...]

    @property
    def shared(self) -> bool:
        """Whether the node has units."""
        return self.total > 0

    @property
    def pending(self) -> int:
        """Units of pods without a known GPU."""
        return sum(pod.pending for pod in self.pods)

    @property
    def on_cards(self) -> int:
        """Units on known GPUs."""
        return sum(self.used_on(card.index) for card in self.cards)

    @property
    def used(self) -> int:
        """All units, on GPUs and pending."""
        return self.on_cards + self.pending

    @property
    def gpus(self) -> GpuCount:
        """Number of GPUs, shared or whole."""
        if not self.shared:
            return self.whole_cards
        in_use = sum(self.used_on(card.index) > 0 for card in self.cards)
        return GpuCount(len(self.cards), in_use, sum(card.faulty for card in self.cards))

    def used_on(self, index: int) -> int:
        """Units on one GPU; all of them if it is used as a whole GPU."""
        whole = sum(card.units for card in self.cards if card.index == index and card.whole_gpu_pods)
        return whole + sum(pod.cards.get(index, 0) for pod in self.pods)


def views_of(nodes: Iterable[ClusterNode], pods: Iterable[PodRecord]) -> list[NodeView]:
    """The nodes with the pods that run on them, sorted by name."""
    by_node: defaultdict[str, list[PodRecord]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
        if not pod.finished:
            by_node[pod.node].append(pod)
    views = (view_of(node, by_node[node.name]) for node in nodes)
    return sorted(views, key=lambda view: view.name)


def view_of(node: ClusterNode, pods: Iterable[PodRecord]) -> NodeView:
    """One node; never raises."""
    problems: list[str] = []
    labels = node.labels
    annotations = node.metadata.annotations
    cards_text = node.cards_text
    total = max(0, _amount(node.status.allocatable, RESOURCE_MEM, problems))
    cards = _cards(node, total, cards_text, problems)
    assigned = _assigned(annotations.assigned if annotations else None, problems)
    core = node_of(node.name, capacity={}, labels=labels)
    bound = tuple(pods)
    closed = node.closed_by_agent
    if closed:
        problems.append(f"takes no new pods: {closed}")
    if not total and any(pod.units for pod in bound):
        problems.append(f"pods use {RESOURCE_MEM}, but none is allocatable; is the node agent running?")
    return NodeView(
        name=node.name,
        address=_address(node),
        roles=_roles(labels),
        ready=node.ready,
        total=total,
        cards=cards,
        described=cards_text is not None,
        pods=tuple(_pod_view(pod, assigned.get(pod.uid), cards) for pod in bound),
        mode=str(core.mode),
        policy=core.placement if core.placement in POLICIES and core.placement is not None else DEFAULT,
        not_sharing=closed or core.closed,
        whole_cards=_whole_cards(node, bound, problems),
        problems=tuple(f"node {node.name}: {problem}" for problem in problems),
    )


def _amount(amounts: Mapping[str, Any] | None, name: str, problems: list[str]) -> int:
    try:
        return parse_quantity((amounts or {}).get(name, 0))
    except InvalidRequest as error:
        problems.append(f"{name}: {error}")
        return 0


def _cards(node: ClusterNode, total: int, text: str | None, problems: list[str]) -> tuple[Card, ...]:
    if text is None:
        count = _amount(node.status.allocatable, RESOURCE_COUNT, problems)
        cards = equal_cards(total, count) if 0 < count <= _MAX_CARDS else ()
    else:
        published = parse_cards(text)
        if isinstance(published, Malformed):
            problems.append(f"annotation {ANN_CARDS}: {published.problem}")
            return ()
        count, cards = len(published), published if len(published) <= _MAX_CARDS else ()
    if total and not cards:
        problems.append(f"{RESOURCE_MEM}={total} on {count} GPUs: cannot derive the size of a GPU")
    return cards


def _assigned(text: str | None, problems: list[str]) -> Mapping[str, Mapping[int, int]]:
    assigned = parse_assigned(text) if text is not None else {}
    if assigned is None:
        problems.append(f"annotation {ANN_ASSIGNED_NODE} cannot be read")
    return assigned or {}


def _pod_view(pod: PodRecord, assigned: Mapping[int, int] | None, cards: tuple[Card, ...]) -> PodView:
    indices = {card.index for card in cards}
    shares = known_shares(pod.demand, pod.claim, assigned, indices) if pod.demand and pod.units else None
    placed = {index: share.mem for index, share in shares or ()}
    pending = pod.units - sum(placed.values())
    name = f"{pod.namespace}/{pod.name}"
    whole = {card.index: card.units for card in cards if pod.whole_cards and name in card.whole_gpu_pods}
    return PodView(pod.uid, pod.namespace, pod.name, pod.units, placed, pending, pod.whole_cards, whole)


def _whole_cards(node: ClusterNode, pods: Iterable[PodRecord], problems: list[str]) -> GpuCount:
    capacity = _amount(node.status.capacity, RESOURCE_WHOLE_GPU, problems)
    allocatable = _amount(node.status.allocatable, RESOURCE_WHOLE_GPU, problems)
    return GpuCount(capacity, sum(pod.whole_cards for pod in pods), capacity - allocatable)


def _address(node: ClusterNode) -> str:
    found = (a.address for a in node.status.addresses or () if a.type == "InternalIP" and a.address)
    return printable(next(found, "unknown"))


def _roles(labels: Mapping[str, str]) -> tuple[str, ...]:
    roles = {key.removeprefix(_ROLE_LABEL) for key in labels if key.startswith(_ROLE_LABEL)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return tuple(sorted({_ROLE_ALIASES.get(role, role) for role in roles if role}))


def printable(text: str) -> str:
    """Replaces characters that could move the cursor or break a column."""
    return "".join(char if char.isprintable() else "?" for char in text)
