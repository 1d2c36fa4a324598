"""Builders of GPU pods and allocations, and the effects of a kubelet on them.

``allocations(14, 14)`` is a node with two GPUs, ``gpu_pod("a", 4, card=0)`` a pod bound to GPU 0, and
``gpu_pod("a", 4)`` one without GPU annotations.
"""

from dataclasses import replace

from gpushare.deviceplugin.core.allocations import AllocateSnapshot, Allocations, Key
from gpushare.deviceplugin.core.decision import Allocated, Capabilities, decide, with_allocation
from gpushare.deviceplugin.core.interface import Rejected
from gpushare.deviceplugin.core.matching import AllocateCall, match
from gpushare.deviceplugin.core.reconcile import ServedContainer, join
from gpushare.model.cards import Card
from gpushare.model.conflicts import Declared, conflicts_of
from gpushare.model.demand import Demand, Malformed
from gpushare.model.local_node import GpuPod
from gpushare.model.modes import Mode
from tests.support.builders.scheduling import pod

NODE = "node-a"
PICKS = Declared((("NVIDIA_VISIBLE_DEVICES", "all"),))
"""What a container declares that selects its devices itself."""


def cards(*units: int, broken: tuple[int, ...] = ()) -> tuple[Card, ...]:
    """Cards ``GPU-0``, ``GPU-1``, … of these sizes."""
    return tuple(
        Card(index, size, f"GPU-{index}", "Tesla T4", size * 1024, healthy=index not in broken)
        for index, size in enumerate(units)
    )


def allocations(*units: int, mode: Mode = Mode.SHARE, broken: tuple[int, ...] = ()) -> Allocations:
    """An empty node."""
    return Allocations(NODE, cards(*units, broken=broken), mode)


def gpu_pod(
    uid: str,
    asks: int | Demand | Malformed = 4,
    *,
    card: int | tuple[int, ...] | None = None,
    bound: int = 0,
    declares: Declared | None = None,
) -> GpuPod:
    """A pod of the node, bound at time ``bound``; with ``card`` it was bound by our extender.

    ``declares`` is what its container ``main`` declares.
    """
    plain = pod(uid, asks, at=NODE, card=card)
    conflicts = {"main": conflicts_of(declares)} if declares else {}
    return GpuPod(replace(plain, seal="sealed" if card is not None else None), bound, conflicts=conflicts)


def with_gpu_pods(node: Allocations, *gpu_pods: GpuPod) -> Allocations:
    """The node with these pods in it."""
    return replace(node, gpu_pods={**node.gpu_pods, **{each.uid: each for each in gpu_pods}})


def asked(
    node: Allocations, amount: int, first_device_id: str, done: frozenset[Key] = frozenset()
) -> Allocated | Rejected | None:
    """The decision on an Allocate call for that amount; None if no container waits for it."""
    found = match(AllocateSnapshot(node, done), AllocateCall(amount))
    return decide(node, found, (first_device_id,), Capabilities(), 1) if found else None


def served(
    node: Allocations, uid: str, amount: int, first_device_id: str, container: str = "main"
) -> Allocations:
    """The node after a response to the call, and with that pod in the checkpoint."""
    decision = asked(node, amount, first_device_id)
    assert isinstance(decision, Allocated), decision
    node = with_allocation(node, decision.allocation)
    return join(node, [ServedContainer(uid, container, first_device_id, amount)])
