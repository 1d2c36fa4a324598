"""Pods and nodes as the scheduling core uses them: reduced, parsed, immutable.

Adapters build them from API objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gpushare.contract import (
    ANN_ASSIGNED_NODE,
    ANN_CARDS,
    CORE_PER_CARD,
    LABEL_PLACEMENT,
    RESOURCE_COUNT,
    RESOURCE_MEM,
)
from gpushare.errors import InvalidRequest
from gpushare.model.annotations import Shares, parse_assigned
from gpushare.model.cards import Card, equal_cards, parse_cards
from gpushare.model.demand import Demand, Malformed
from gpushare.model.modes import WITH_CORE, Mode, mode_of
from gpushare.model.quantity import parse_milli, parse_quantity
from gpushare.model.resources import Resources

EMPTY: Mapping[str, str] = MappingProxyType({})
_BYTES_PER_MIB: Final = 2**20
_MAX_CARDS: Final = 1024
"""More GPUs than any machine has; a larger count is an error and must not create as many objects."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with a GPU memory limit, valid or not.

    ``claim`` are the GPUs and amounts in its bind annotations, None if absent or invalid; ``mode`` is the
    node's mode when it was bound, None if unknown. ``unschedulable`` is the scheduler's last message about a
    pod that it could not place; ``gated``: whether it does not consider the pod yet, because of scheduling
    gates. ``seal`` is the signature of claim and mode; ``created`` is the creation
    time, as the API writes it. ``labels`` are pairs, so that a pod is hashable.

    ``owner`` is the controller of the pod, as ``StatefulSet/<name>``, empty without one. ``workload`` is its
    UID if it replaces the pod at once when the pod fails, empty otherwise.
    ``preempts`` is False for the preemption policy Never. ``safe_to_evict`` is what its annotation says, None
    if it has none. ``held`` is whether room on the nominated node was made for it, so that no pod of the same
    priority takes it.
    ``rejected`` is the kubelet's message about a pod that it did not admit, None if it did, and
    ``rejected_at`` the time, as the API writes it. ``group`` is the PodGroup that the pod refers to.
    """

    uid: str
    namespace: str
    name: str
    demand: Demand | Malformed
    node: str | None = None
    finished: bool = False
    terminating: bool = False
    priority: int = 0
    nominated: str | None = None
    claim: Shares | None = None
    placement: str | None = None
    unschedulable: str | None = None
    seal: str | None = None
    created: str = ""
    mode: Mode | None = None
    labels: tuple[tuple[str, str], ...] = ()
    gated: bool = False
    owner: str = ""
    workload: str = ""
    rejected: str | None = None
    rejected_at: str = ""
    preempts: bool = True
    safe_to_evict: bool | None = None
    held: bool = False
    group: str = ""

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def managed(self) -> bool:
        """Whether a container names a gpushare resource, even with the amount 0.

        kube-scheduler sends such pods to the extender.
        """
        return isinstance(self.demand, Malformed) or bool(self.demand.containers)

    @property
    def is_considered(self) -> bool:
        """Whether the scheduler tries to place it."""
        return self.node is None and not (self.gated or self.terminating or self.finished)


NO_UNITS: Final = (
    f"its kubelet offers no {RESOURCE_MEM}: the node agent does not run there, or no GPU is healthy"
)
NO_COUNT: Final = (
    f"capacity {RESOURCE_MEM} without {RESOURCE_COUNT}, so no GPU size: the node agent writes it"
)
WHILE_AGENT_STARTS: Final = (NO_UNITS, NO_COUNT)
"""Reasons that a node may have for a moment: kubelet and node agent write its status independently."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node and its GPUs.

    ``closed`` is the reason why the node takes no pods, None if it does. ``away`` is why kube-scheduler takes
    pods elsewhere whatever is free here, such as ``cordoned``. ``multi_user``: whether its MPS servers serve
    several users at once. ``pods_per_card`` is the maximum of pods on one GPU, 0 for any number. ``opened``
    is when it last began to take pods, as the node agent writes it. ``allocatable`` is the CPU and memory
    that it has for pods, None if unknown.
    """

    name: str
    cards: tuple[Card, ...] = ()
    mode: Mode = Mode.SHARE
    placement: str | None = None
    closed: str | None = None
    assigned: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    multi_user: bool = False
    pods_per_card: int = 0
    away: str | None = None
    opened: str = ""
    allocatable: Resources | None = None

    @property
    def one_user(self) -> bool:
        """Whether all pods on a GPU must have the same user."""
        return self.mode is Mode.MPS and not self.multi_user

    @property
    def core_per_card(self) -> int:
        """Percent of compute that can be reserved on a GPU; 0 if the mode does not divide compute."""
        return CORE_PER_CARD if self.mode in WITH_CORE else 0


def node_of(
    name: str,
    *,
    capacity: Mapping[str, object],
    labels: Mapping[str, str] = EMPTY,
    cards_text: str | None = None,
    assigned_text: str | None = None,
    multi_user: bool = False,
    allocatable: Mapping[str, object] | None = None,
) -> Node:
    """A node from the relevant parts of its API object. Never raises: problems become ``closed``.

    With ``allocatable``, a node whose kubelet offers no units is closed.
    """
    mode, closed = mode_of(labels)
    found = _cards(capacity, cards_text)
    assigned = parse_assigned(assigned_text) if assigned_text is not None else {}
    if isinstance(found, Malformed):
        closed = closed or found.problem
    if assigned is None:
        closed = closed or f"its annotation {ANN_ASSIGNED_NODE} cannot be read"
    cards = () if isinstance(found, Malformed) else found
    if cards and allocatable is not None and not _offers_units(allocatable):
        closed = closed or NO_UNITS
    return Node(
        name,
        cards,
        mode,
        labels.get(LABEL_PLACEMENT),
        closed,
        assigned or {},
        multi_user,
        allocatable=_allocatable(allocatable or {}),
    )


def _allocatable(offers: Mapping[str, object]) -> Resources | None:
    """The CPU and memory that a kubelet offers; None if it does not say."""
    try:
        return Resources(parse_milli(offers["cpu"]), parse_quantity(offers["memory"]) // _BYTES_PER_MIB)
    except (InvalidRequest, KeyError):
        return None


def _offers_units(allocatable: Mapping[str, object]) -> bool:
    try:
        return parse_quantity(allocatable.get(RESOURCE_MEM, 0)) > 0
    except InvalidRequest:
        return False


def _cards(capacity: Mapping[str, object], text: str | None) -> tuple[Card, ...] | Malformed:
    if text is not None:
        cards = parse_cards(text)
        return (
            Malformed(f"annotation {ANN_CARDS}: {cards.problem}") if isinstance(cards, Malformed) else cards
        )
    try:
        units = parse_quantity(capacity.get(RESOURCE_MEM, 0))
        count = parse_quantity(capacity.get(RESOURCE_COUNT, 0))
    except InvalidRequest as error:
        return Malformed(f"capacity: {error}")
    if units <= 0:
        return ()
    if count == 0:
        return Malformed(NO_COUNT)
    if not 0 < count <= _MAX_CARDS:
        return Malformed(f"capacity {RESOURCE_MEM}={units} on {RESOURCE_COUNT}={count} GPUs: no GPU size")
    return equal_cards(units, count)
