"""When the startup taints of a node go, and the JSON patch that removes them. Pure.

A provider adds them to a new node, which is Ready before its units exist: an autoscaler would add a second
node meanwhile. The agent removes these taints and no other, and never adds one.
"""

from dataclasses import replace
from typing import Any

from gpushare.contract import ANN_CARDS, ANN_CLOSED, RESOURCE_MEM, STARTUP_TAINTS
from gpushare.model.local_node import LocalNode


def removed_taints(node: LocalNode | None) -> list[dict[str, Any]] | None:
    """The JSON patch without the startup taints; None if there are none, or while no pod could be placed.

    Each operation applies only if the same taint is still in its place on the same node: taints are one list,
    which other controllers change too.
    """
    if node is None or not takes_pods(node):
        return None
    found = [index for index, taint in enumerate(node.taints) if taint.key in STARTUP_TAINTS]
    if not found:
        return None
    operations: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": node.uid}]
    # From the end: a removal moves the taints after it.
    for index in reversed(found):
        path = f"/spec/taints/{index}"
        taint = node.taints[index]
        operations += [
            {"op": "test", "path": f"{path}/key", "value": taint.key},
            {"op": "test", "path": f"{path}/effect", "value": taint.effect},
            {"op": "remove", "path": path},
        ]
    return operations


def takes_pods(node: LocalNode) -> bool:
    """Whether kubelet and agent offer units on it, according to its object."""
    annotations = node.annotations
    return (
        node.allocatable.get(RESOURCE_MEM, 0) > 0
        and ANN_CARDS in annotations
        and ANN_CLOSED not in annotations
    )


def without_startup_taints(node: LocalNode) -> LocalNode:
    """The node after the patch."""
    return replace(node, taints=tuple(taint for taint in node.taints if taint.key not in STARTUP_TAINTS))
