"""Nodes as the API writes them, as far as we read them, and as the core sees them."""

from typing import Any

from msgspec import Struct, field

from gpushare import contract
from gpushare.adapters.kube.wire import BareMeta, Condition
from gpushare.model.objects import Node, node_of


class _NodeAnnotations(
    Struct,
    rename={
        "cards": contract.ANN_CARDS,
        "assigned": contract.ANN_ASSIGNED_NODE,
        "multi_user": contract.ANN_MPS_MULTI_USER,
    },
):
    cards: str | None = None
    assigned: str | None = None
    multi_user: str | None = None


class _NodeMeta(BareMeta, rename="camel"):
    annotations: _NodeAnnotations | None = None
    labels: dict[str, str] | None = None


class _Address(Struct):
    type: str = ""
    address: str = ""


class _NodeStatus(Struct):
    capacity: dict[str, Any] | None = None
    allocatable: dict[str, Any] | None = None
    addresses: list[_Address] | None = None
    conditions: list[Condition] | None = None


class WireNode(Struct):
    """A node as the API writes it, trimmed."""

    metadata: _NodeMeta = field(default_factory=_NodeMeta)
    status: _NodeStatus = field(default_factory=_NodeStatus)


def core_node(wire: WireNode) -> Node:
    """The node as the core sees it."""
    annotations = wire.metadata.annotations or _NodeAnnotations()
    return node_of(
        wire.metadata.name,
        capacity=wire.status.capacity or {},
        labels=wire.metadata.labels or {},
        cards_text=annotations.cards,
        assigned_text=annotations.assigned,
        multi_user=annotations.multi_user == "true",
    )
