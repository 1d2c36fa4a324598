"""Nodes as a versioned document for programs: numbers are numbers, unknown values are null.

Every item has every key. Amounts are in the item's ``unit``; counts of whole GPUs are under ``gpus``.
"""

from collections.abc import Sequence
from typing import Any

from gpushare.model.cards import Card
from gpushare.overview.documents import document
from gpushare.overview.memory_units import unit_of
from gpushare.overview.node_view import NodeView, PodView


def nodes_document(nodes: Sequence[NodeView]) -> dict[str, Any]:
    """All nodes, in their order."""
    return document("NodeShareList", items=[_node(node) for node in nodes])


def _node(node: NodeView) -> dict[str, Any]:
    pods = node.pods if node.shared else ()
    return {
        "name": node.name,
        "address": node.address,
        "roles": list(node.roles),
        "ready": node.ready,
        "shareable": node.shared,
        "closed": node.not_sharing,
        "mode": node.mode if node.shared else None,
        "placement": node.policy if node.shared else None,
        "unit": (unit_of(node).value or None) if node.shared else None,
        "total": node.total,
        "used": node.used if node.shared else 0,
        "cards": [_card(node, card) for card in node.cards if node.shared],
        "pending": {
            "used": sum(pod.pending for pod in pods),
            "pods": [_pod(pod, pod.pending) for pod in pods if pod.pending],
        },
        "gpus": node.gpus._asdict(),
        "wholeCardPods": [_pod(pod, pod.whole_cards) for pod in node.pods if pod.whole_cards],
    }


def _card(node: NodeView, card: Card) -> dict[str, Any]:
    return {
        "index": card.index,
        "uuid": card.uuid or None,
        "model": card.model or None,
        "total": card.units,
        "used": node.used_on(card.index),
        "healthy": not card.faulty if node.described else None,
        "pods": [_pod(pod, used) for pod in node.pods if (used := pod.on_card(card.index))],
    }


def _pod(pod: PodView, used: int) -> dict[str, Any]:
    return {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "used": used}
