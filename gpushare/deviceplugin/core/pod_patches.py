"""Projects allocations to annotations of the node and of its pods. Pure.

The node annotation ``gpushare.io/assigned`` has every allocation, because the owner of a pod can edit the
annotations of the pod, and a scheduler extender then does not know its GPUs.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from gpushare.contract import ANN_ASSIGNED, ANN_ASSUME_TIME
from gpushare.deviceplugin.core.allocations import Allocations, allocated_shares
from gpushare.model.annotations import bind_annotations
from gpushare.model.local_node import GpuPod
from gpushare.model.objects import Pod

Assigned = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Pod UID in the API → container → GPU index → units; the sums per GPU are the pod's reservation."""
PodPatches = Mapping[str, tuple[Pod, Mapping[str, str | None]]]
"""Pod UID in the API → the pod and the annotations to set."""

_SERVED: Final = "true"


def assigned_text(allocations: Allocations) -> str:
    """The node annotation ``gpushare.io/assigned``."""
    return msgspec.json.encode(assigned(allocations)).decode()


def assigned(allocations: Allocations) -> Assigned:
    """The pods that have allocations."""
    result: dict[str, dict[str, dict[str, int]]] = {}
    for uid in sorted(allocations.by_pod):
        gpu_pod = allocations.gpu_pods.get(uid)
        shares = allocated_shares(allocations, uid)
        if gpu_pod and shares:
            result[gpu_pod.pod.uid] = _per_container(allocations, uid, {i: share.mem for i, share in shares})
    return result


def _per_container(
    allocations: Allocations, uid: str, reserved: Mapping[int, int]
) -> dict[str, dict[str, int]]:
    """Units per container, reduced so that the sum per GPU is the pod's reservation.

    Containers that run one after the other share units; the first ones by name keep theirs here.
    """
    remaining = dict(reserved)
    text: dict[str, dict[str, int]] = {}
    for allocation in sorted(allocations.of_pod(uid), key=lambda each: each.container):
        for uuid, units in allocation.cards:
            index = allocations.index_of(uuid)
            if index is not None and (part := min(units, remaining.get(index, 0))):
                text.setdefault(allocation.container, {})[str(index)] = part
                remaining[index] -= part
    return _with_rest(text, remaining)


def _with_rest(text: dict[str, dict[str, int]], remaining: Mapping[int, int]) -> dict[str, dict[str, int]]:
    """Adds the units of containers without an allocation, under an empty container name."""
    rest = {str(index): units for index, units in remaining.items() if units}
    return {**text, "": rest} if rest else text


def pod_patches(allocations: Allocations) -> PodPatches:
    """Missing annotations of pods whose allocations the kubelet has confirmed."""
    return {
        gpu_pod.pod.uid: (gpu_pod.pod, patch)
        for uid, gpu_pod in allocations.gpu_pods.items()
        if (patch := _patch(allocations, uid, gpu_pod))
    }


def _patch(allocations: Allocations, uid: str, gpu_pod: GpuPod) -> dict[str, str | None]:
    mine = allocations.of_pod(uid)
    shares = allocated_shares(allocations, uid)
    if (
        not mine
        or not shares
        or not all(allocation.confirmed for allocation in mine)
        or gpu_pod.demand is None
    ):
        return {}
    at_ns = max(allocation.at_ns for allocation in mine) or gpu_pod.bound_ns
    if len(shares) == gpu_pod.demand.cards and shares != gpu_pod.claim:
        units = next(card.units for card in allocations.cards if card.index == shares[0][0])
        return {**bind_annotations(gpu_pod.demand, shares, units, at_ns), ANN_ASSIGNED: _SERVED}
    return {} if gpu_pod.served else {ANN_ASSIGNED: _SERVED, ANN_ASSUME_TIME: str(at_ns)}
