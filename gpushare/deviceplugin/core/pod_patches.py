"""What grants mean for the API server: the node's word on its pods, and the pods' own annotations.

Pods whose annotations do not tell their cards are in the node annotation ``gpushare.io/assigned`` for as
long as they live, because a scheduler extender keeps the first word it read on a pod.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from gpushare.contract import ANN_ASSIGNED, ANN_ASSUME_TIME
from gpushare.deviceplugin.core.allocations import Allocations, held
from gpushare.model.annotations import bind_annotations
from gpushare.model.objects import Pod
from gpushare.model.own_node import GpuPod

Assigned = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Pod UID as in the API → container → card index → units; the sums per card are what the pod reserves."""
PodPatches = Mapping[str, tuple[Pod, Mapping[str, str | None]]]
"""Pod UID as in the API → the pod and the annotations that it should have."""

_SERVED: Final = "true"


def assigned_text(tenancy: Allocations) -> str:
    """The node annotation ``gpushare.io/assigned``."""
    return msgspec.json.encode(assigned(tenancy)).decode()


def assigned(tenancy: Allocations) -> Assigned:
    """The pods whose own annotations do not tell their cards."""
    result: dict[str, dict[str, dict[str, int]]] = {}
    for uid, grants in sorted(tenancy.by_pod.items()):
        tenant = tenancy.tenants.get(uid)
        shares = held(tenancy, uid)
        if tenant and shares and any(grant.astray for grant in grants):
            result[tenant.pod.uid] = _per_container(tenancy, uid, {i: share.mem for i, share in shares})
    return result


def _per_container(tenancy: Allocations, uid: str, reserved: Mapping[int, int]) -> dict[str, dict[str, int]]:
    """What each container got, cut so that the sum per card is the pod's reservation.

    Containers that run one after the other share the units of their card; the first ones named keep
    theirs in the text.
    """
    left = dict(reserved)
    text: dict[str, dict[str, int]] = {}
    for grant in sorted(tenancy.grants_of(uid), key=lambda g: g.container):
        for uuid, units in grant.cards:
            index = tenancy.index_of(uuid)
            if index is not None and (part := min(units, left.get(index, 0))):
                text.setdefault(grant.container, {})[str(index)] = part
                left[index] -= part
    return _with_rest(text, left)


def _with_rest(text: dict[str, dict[str, int]], left: Mapping[int, int]) -> dict[str, dict[str, int]]:
    """The rest belongs to containers that have not been served yet; it is named under no container."""
    rest = {str(index): units for index, units in left.items() if units}
    return {**text, "": rest} if rest else text


def pod_patches(tenancy: Allocations) -> PodPatches:
    """What the annotations of served pods should say and do not; only what the kubelet has confirmed."""
    return {
        tenant.pod.uid: (tenant.pod, patch)
        for uid, tenant in tenancy.tenants.items()
        if (patch := _patch(tenancy, uid, tenant))
    }


def _patch(tenancy: Allocations, uid: str, tenant: GpuPod) -> dict[str, str | None]:
    grants = tenancy.grants_of(uid)
    shares = held(tenancy, uid)
    if not grants or not shares or not all(grant.sure for grant in grants) or tenant.demand is None:
        return {}
    at_ns = max(grant.at_ns for grant in grants) or tenant.bound_ns
    if len(shares) == tenant.demand.cards and shares != tenant.claim:
        units = next(card.units for card in tenancy.cards if card.index == shares[0][0])
        return {**bind_annotations(tenant.demand, shares, units, at_ns), ANN_ASSIGNED: _SERVED}
    return {} if tenant.served else {ANN_ASSIGNED: _SERVED, ANN_ASSUME_TIME: str(at_ns)}
