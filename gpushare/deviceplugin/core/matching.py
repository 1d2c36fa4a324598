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
from dataclasses import dataclass, replace

from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Key, has_room_beside
from gpushare.model.demand import ContainerDemand, Demand
from gpushare.model.own_node import GpuPod


@dataclass(frozen=True, slots=True)
class Match:
    """The container that a call is for, as far as one can know."""

    gpu_pod: GpuPod
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


def match(allocations: Allocations, call: AllocateCall) -> Match | None:
    """The likeliest container; None if no pod of this node waits for that amount.

    A container with the compute of the call comes first. Where none waits, the call for compute was for a
    container that failed since, and any container with that amount counts.
    """
    found = _likeliest(allocations, call)
    return found or (_likeliest(allocations, replace(call, core=None)) if call.core else None)


def _likeliest(allocations: Allocations, call: AllocateCall) -> Match | None:
    found = _waiting(allocations, call)
    known = [each for each in found if call.known is None or each.gpu_pod.pod.full_name in call.known]
    ranked = sorted(known or found, key=lambda each: _rank(allocations, each, call))
    return next((each for each in ranked if not _robs(allocations, each, ranked, call)), None)


def contested(allocations: Allocations, call: AllocateCall) -> bool:
    """Whether unlike pods wait for that amount, so that it matters which of them is meant."""
    found = _waiting(allocations, call)
    stages = [_stage(allocations, each, call) for each in found]
    return len({_shape(each) for each, stage in zip(found, stages, strict=True) if stage == min(stages)}) > 1


def match_core(allocations: Allocations, percent: int, done: frozenset[Key] | None) -> Match | None:
    """The likeliest container for a call for that share of compute."""
    found = _next(allocations, done, lambda next_: next_.core == percent)
    return min(found, key=lambda each: _rank(allocations, each, AllocateCall(0, done=done)), default=None)


def _waiting(allocations: Allocations, call: AllocateCall) -> list[Match]:
    """The containers that the call can be for."""
    return _next(
        allocations, call.done, lambda next_: next_.mem == call.amount and call.core in (None, next_.core)
    )


def _next(
    allocations: Allocations, done: frozenset[Key] | None, suits: Callable[[ContainerDemand], bool]
) -> list[Match]:
    return [
        Match(gpu_pod, container)
        for gpu_pod in allocations.gpu_pods.values()
        if (container := next_container(allocations, gpu_pod, done)) and suits(container)
    ]


Rank = tuple[int, bool, bool, int, str, str]
Shape = tuple[object, ...]


def next_container(
    allocations: Allocations, gpu_pod: GpuPod, done: frozenset[Key] | None
) -> ContainerDemand | None:
    """The container of a pod whose turn it is: the first that has not been served and does not run."""
    containers = [c for c in _containers(gpu_pod) if c.mem > 0 and c.name not in gpu_pod.running]
    finished = done if done is not None else frozenset(allocations.by_container)
    waiting = [c for c in containers if (gpu_pod.uid, c.name) not in finished]
    if not waiting and done is None:
        # Without a checkpoint a call that comes again cannot be told: it is for the first container.
        waiting = containers
    return waiting[0] if waiting else None


def _containers(gpu_pod: GpuPod) -> tuple[ContainerDemand, ...]:
    demand = gpu_pod.pod.demand
    sound = demand if isinstance(demand, Demand) else demand.at_least
    return sound.containers if sound else ()


def _rank(allocations: Allocations, found: Match, call: AllocateCall) -> Rank:
    """The smallest is taken."""
    gpu_pod, pod = found.gpu_pod, found.gpu_pod.pod
    elsewhere = not gpu_pod.claim or call.cards != {index for index, _ in gpu_pod.claim}
    stage = _stage(allocations, found, call)
    return stage, pod.terminating, elsewhere, gpu_pod.bound_ns, pod.created, pod.uid


def _stage(allocations: Allocations, found: Match, call: AllocateCall) -> int:
    """A pod under way comes first, then pods never served, served before, refused before."""
    gpu_pod = found.gpu_pod
    if (gpu_pod.uid, found.container.name) in call.refused:
        return 3
    if _under_way(gpu_pod, call):
        return 0
    return 2 if allocations.of_pod(gpu_pod.uid) or gpu_pod.served else 1


def _shape(found: Match) -> Shape:
    """What twins have in common: whichever of them is meant, the answer is right but for the card."""
    gpu_pod = found.gpu_pod
    containers = tuple((c.kind, c.mem, c.core) for c in _containers(gpu_pod))
    cards = gpu_pod.demand.cards if gpu_pod.demand else 0
    return cards, containers, found.container.name in gpu_pod.picks_devices


def _robs(allocations: Allocations, found: Match, all_found: Sequence[Match], call: AllocateCall) -> bool:
    """Whether what this one has may be meant for one who has nothing, with no room on its cards for both.

    Who has nothing comes later only where it was refused, which may have been meant for its twin, or where
    somebody else has served it.
    """
    grant = allocations.by_container.get((found.gpu_pod.uid, found.container.name))
    if grant is None or _under_way(found.gpu_pod, call):
        return False
    return any(
        not allocations.of_pod(other.gpu_pod.uid)
        and not has_room_beside(allocations, grant, other.container.mem, other.container.core)
        for other in all_found
    )


def _under_way(gpu_pod: GpuPod, call: AllocateCall) -> bool:
    """Whether the kubelet has asked for an earlier container of the pod."""
    return call.done is not None and any(uid == gpu_pod.uid for uid, _ in call.done)


def twin_with_core(
    allocations: Allocations, last: Allocation, percent: int, done: frozenset[Key] | None
) -> bool:
    """Whether a call for compute may be for the container that the last call for memory was answered for.

    The kubelet's checkpoint names a container only when both its calls are over.
    """
    if done is not None and last.key in done:
        return False
    return any(
        c.mem == last.units and c.core == percent
        for gpu_pod in allocations.gpu_pods.values()
        for c in _containers(gpu_pod)
        if (gpu_pod.uid, c.name) not in (done or ())
    )


def core_only(allocations: Allocations, percent: int) -> Match | None:
    """A container that asks for that share of compute and for no memory to go with it."""
    return next(
        (
            Match(gpu_pod, container)
            for gpu_pod in allocations.gpu_pods.values()
            for container in _containers(gpu_pod)
            if container.core == percent and not container.mem
        ),
        None,
    )
