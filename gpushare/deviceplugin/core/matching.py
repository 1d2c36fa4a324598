"""Which container is this Allocate for? The kubelet does not say; it is worked out here.

The kubelet admits one pod after the other and asks for its containers in their order, init containers
first, one call per resource (kubernetes pkg/kubelet/cm/devicemanager, ``allocateContainerResources``).
It writes its checkpoint after each container, so that at any call all earlier ones are known by name,
and only the next container of some pod can be the one. Among pods that are alike the oldest is taken:
they are interchangeable, and the checkpoint tells afterwards which one it was. Unlike pods with a
container of that amount are told apart by the list of pods of the kubelet, which has a pod on it before
it admits it, and not earlier (``HandlePodAdditions``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Key, has_room_beside
from gpushare.model.demand import ContainerDemand, Demand
from gpushare.model.own_node import GpuPod


@dataclass(frozen=True, slots=True)
class Match:
    """The container that a call is for, as far as one can know."""

    tenant: GpuPod
    container: ContainerDemand


@dataclass(frozen=True, slots=True)
class AllocateCall:
    """An Allocate call for units of memory.

    ``cards`` are the indices that its device IDs speak of, empty where they say nothing. ``core`` is the
    percentage that the kubelet has just asked for the same container, if it did. ``done`` is whom the
    checkpoint names, None where it cannot be read. ``refused`` were refused before: the kubelet is
    done with them, though the API may still show them waiting. ``known`` are the full names of the pods
    that the kubelet has, None where it was not asked.
    """

    amount: int
    cards: frozenset[int] = frozenset()
    core: int | None = None
    done: frozenset[Key] | None = None
    refused: frozenset[Key] = frozenset()
    known: frozenset[str] | None = None


def match(tenancy: Allocations, call: AllocateCall) -> Match | None:
    """The likeliest container; None where no pod of this node waits for that amount."""
    found = _waiting(tenancy, call)
    known = [each for each in found if call.known is None or each.tenant.pod.full_name in call.known]
    ranked = sorted(known or found, key=lambda each: _rank(tenancy, each, call))
    return next((each for each in ranked if not _robs(tenancy, each, ranked, call)), None)


def contested(tenancy: Allocations, call: AllocateCall) -> bool:
    """Whether unlike pods wait for that amount, so that it matters which of them is meant."""
    found = _waiting(tenancy, call)
    stages = [_stage(tenancy, each, call) for each in found]
    return len({_shape(each) for each, stage in zip(found, stages, strict=True) if stage == min(stages)}) > 1


def match_core(tenancy: Allocations, percent: int, done: frozenset[Key] | None) -> Match | None:
    """The likeliest container for a call for that share of compute."""
    found = _next(tenancy, done, lambda next_: next_.core == percent)
    return min(found, key=lambda each: _rank(tenancy, each, AllocateCall(0, done=done)), default=None)


def _waiting(tenancy: Allocations, call: AllocateCall) -> list[Match]:
    """The containers that the call can be for."""
    return _next(
        tenancy, call.done, lambda next_: next_.mem == call.amount and call.core in (None, next_.core)
    )


def _next(
    tenancy: Allocations, done: frozenset[Key] | None, suits: Callable[[ContainerDemand], bool]
) -> list[Match]:
    return [
        Match(tenant, container)
        for tenant in tenancy.tenants.values()
        if (container := next_container(tenancy, tenant, done)) and suits(container)
    ]


Rank = tuple[int, bool, bool, int, str, str]
Shape = tuple[object, ...]


def next_container(
    tenancy: Allocations, tenant: GpuPod, done: frozenset[Key] | None
) -> ContainerDemand | None:
    """The container of a pod whose turn it is: the first that has not been served and does not run."""
    containers = [c for c in _containers(tenant) if c.mem > 0 and c.name not in tenant.running]
    finished = done if done is not None else frozenset(tenancy.grants)
    waiting = [c for c in containers if (tenant.uid, c.name) not in finished]
    if not waiting and done is None:
        # Without a checkpoint a call that comes again cannot be told: it is for the first container.
        waiting = containers
    return waiting[0] if waiting else None


def _containers(tenant: GpuPod) -> tuple[ContainerDemand, ...]:
    demand = tenant.pod.demand
    sound = demand if isinstance(demand, Demand) else demand.at_least
    return sound.containers if sound else ()


def _rank(tenancy: Allocations, found: Match, call: AllocateCall) -> Rank:
    """The smallest is taken."""
    tenant, pod = found.tenant, found.tenant.pod
    elsewhere = not tenant.claim or call.cards != {index for index, _ in tenant.claim}
    stage = _stage(tenancy, found, call)
    return stage, pod.terminating, elsewhere, tenant.bound_ns, pod.created, pod.uid


def _stage(tenancy: Allocations, found: Match, call: AllocateCall) -> int:
    """A pod under way comes first, then pods never served, served before, refused before."""
    tenant = found.tenant
    if (tenant.uid, found.container.name) in call.refused:
        return 3
    if _under_way(tenant, call):
        return 0
    return 2 if tenancy.grants_of(tenant.uid) or tenant.served else 1


def _shape(found: Match) -> Shape:
    """What twins have in common: whichever of them is meant, the answer is right but for the card."""
    tenant = found.tenant
    containers = tuple((c.kind, c.mem, c.core) for c in _containers(tenant))
    cards = tenant.demand.cards if tenant.demand else 0
    return cards, containers, found.container.name in tenant.picks_devices


def _robs(tenancy: Allocations, found: Match, all_found: Sequence[Match], call: AllocateCall) -> bool:
    """Whether what this one has may be meant for one who has nothing, with no room on its cards for both.

    Who has nothing comes later only where it was refused, which may have been meant for its twin, or where
    somebody else has served it.
    """
    grant = tenancy.grants.get((found.tenant.uid, found.container.name))
    if grant is None or _under_way(found.tenant, call):
        return False
    return any(
        not tenancy.grants_of(other.tenant.uid)
        and not has_room_beside(tenancy, grant, other.container.mem, other.container.core)
        for other in all_found
    )


def _under_way(tenant: GpuPod, call: AllocateCall) -> bool:
    """Whether the kubelet has asked for an earlier container of the pod."""
    return call.done is not None and any(uid == tenant.uid for uid, _ in call.done)


def twin_with_core(tenancy: Allocations, last: Allocation, percent: int, done: frozenset[Key] | None) -> bool:
    """Whether a call for compute may be for the container that the last call for memory was answered for.

    The kubelet's checkpoint names a container only when both its calls are over.
    """
    if done is not None and last.key in done:
        return False
    return any(
        c.mem == last.units and c.core == percent
        for tenant in tenancy.tenants.values()
        for c in _containers(tenant)
        if (tenant.uid, c.name) not in (done or ())
    )


def core_only(tenancy: Allocations, percent: int) -> Match | None:
    """A container that asks for that share of compute and for no memory to go with it."""
    return next(
        (
            Match(tenant, container)
            for tenant in tenancy.tenants.values()
            for container in _containers(tenant)
            if container.core == percent and not container.mem
        ),
        None,
    )
