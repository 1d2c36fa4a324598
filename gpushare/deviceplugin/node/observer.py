"""Reads the kubelet's checkpoint and applies it to the node state: the one place that does both."""

from collections.abc import Callable

from gpushare.deviceplugin.core.snapshot import AllocateSnapshot
from gpushare.deviceplugin.node.state import KubeletAllocations, NodeState
from gpushare.model.cards import Card

ReadCheckpoint = Callable[[tuple[Card, ...]], KubeletAllocations | None]
"""Returns the content of the kubelet's checkpoint, given the GPUs; None if it cannot be read."""


class Observer:
    """Keeps ``node_state`` in step with the kubelet's checkpoint."""

    def __init__(self, node_state: NodeState, read_checkpoint: ReadCheckpoint) -> None:
        self.node_state = node_state
        self._read_checkpoint = read_checkpoint

    def observe(self) -> AllocateSnapshot:
        """The node as it is now, joined with the checkpoint as it is now."""
        self.node_state.apply_checkpoint(self._read_checkpoint(self.node_state.allocations.cards))
        return self.node_state.snapshot()
