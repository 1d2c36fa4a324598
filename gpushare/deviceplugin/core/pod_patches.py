"""What grants mean for the API server: the node's word on its pods, and the pods' own annotations.

Pods whose annotations do not tell their cards are in the node annotation ``gpushare.io/assigned`` for as
long as they live, because a scheduler extender keeps the first word it read on a pod.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from gpushare.contract import ANN_ASSIGNED, ANN_ASSUME_TIME
from gpushare.deviceplugin.core.allocations import Allocations, allocated_shares
from gpushare.model.annotations import bind_annotations
from gpushare.model.objects import Pod
from gpushare.model.own_node import GpuPod

Assigned = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Pod UID as in the API → container → card index → units; the sums per card are what the pod reserves."""
PodPatches = Mapping[str, tuple[Pod, Mapping[str, str | None]]]
"""Pod UID as in the API → the pod and the annotations that it should have."""

_SERVED: Final = "true"


def assigned_text(allocations: Allocations) -> str:
    """The node annotation ``gpushare.io/assigned``."""
    return msgspec.json.encode(assigned(allocations)).decode()


def assigned(allocations: Allocations) -> Assigned:
    """The pods whose own annotations do not tell their cards."""
    result: dict[str, dict[str, dict[str, int]]] = {}
    for uid, grants in sorted(allocations.by_pod.items()):
        gpu_pod = allocations.gpu_pods.get(uid)
        shares = allocated_shares(allocations, uid)
        if gpu_pod and shares and any(grant.diverged for grant in grants):
            result[gpu_pod.pod.uid] = _per_container(allocations, uid, {i: share.mem for i, share in shares})
    return result


def _per_container(
    allocations: Allocations, uid: str, reserved: Mapping[int, int]
) -> dict[str, dict[str, int]]:
    """What each container got, cut so that the sum per card is the pod's reservation.

    Containers that run one after the other share the units of their card; the first ones named keep
    theirs in the text.
    """
    left = dict(reserved)
    text: dict[str, dict[str, int]] = {}
    for grant in sorted(allocations.of_pod(uid), key=lambda g: g.container):
        for uuid, units in grant.cards:
            index = allocations.index_of(uuid)
            if index is not None and (part := min(units, left.get(index, 0))):
                text.setdefault(grant.container, {})[str(index)] = part
                left[index] -= part
    return _with_rest(text, left)


def _with_rest(text: dict[str, dict[str, int]], left: Mapping[int, int]) -> dict[str, dict[str, int]]:
    """The rest belongs to containers that have not been served yet; it is named under no container."""
    rest = {str(index): units for index, units in left.items() if units}
    return {**text, "": rest} if rest else text


def pod_patches(allocations: Allocations) -> PodPatches:
    """What the annotations of served pods should say and do not; only what the kubelet has confirmed."""
    return {
        gpu_pod.pod.uid: (gpu_pod.pod, patch)
        for uid, gpu_pod in allocations.gpu_pods.items()
        if (patch := _patch(allocations, uid, gpu_pod))
    }


def _patch(allocations: Allocations, uid: str, gpu_pod: GpuPod) -> dict[str, str | None]:
    grants = allocations.of_pod(uid)
    shares = allocated_shares(allocations, uid)
    if not grants or not shares or not all(grant.confirmed for grant in grants) or gpu_pod.demand is None:
        return {}
    at_ns = max(grant.at_ns for grant in grants) or gpu_pod.bound_ns
    if len(shares) == gpu_pod.demand.cards and shares != gpu_pod.claim:
        units = next(card.units for card in allocations.cards if card.index == shares[0][0])
        return {**bind_annotations(gpu_pod.demand, shares, units, at_ns), ANN_ASSIGNED: _SERVED}
    return {} if gpu_pod.served else {ANN_ASSIGNED: _SERVED, ANN_ASSUME_TIME: str(at_ns)}
