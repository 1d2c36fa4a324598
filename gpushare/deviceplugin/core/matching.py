"""Finds the container that an Allocate call is for; the call does not name it. Pure.

The kubelet admits one pod at a time and calls Allocate for its containers in order, init containers first,
once per resource (kubernetes pkg/kubelet/cm/devicemanager, ``allocateContainerResources``). It writes its
checkpoint after each container. So at any call all earlier containers are known by name, and only the next
container of a pod is a candidate. Among equal pods the oldest is taken: they are interchangeable, and the
checkpoint shows later which one it was. Unequal pods with a container of that amount are distinguished by
the kubelet's list of pods, which contains a pod only from its admission on (``HandlePodAdditions``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Key, has_free_beside
from gpushare.model.demand import ContainerDemand, Demand
from gpushare.model.own_node import GpuPod


@dataclass(frozen=True, slots=True)
class Match:
    """The most likely container of a call."""

    gpu_pod: GpuPod
    container: ContainerDemand

    @property
    def key(self) -> Key:
        """The container as allocations name it."""
        return self.gpu_pod.uid, self.container.name


@dataclass(frozen=True, slots=True)
class AllocateCall:
    """An Allocate call for ``amount`` units of memory.

    ``cards`` are the GPU indices in its device IDs, empty if they name none. ``core`` is the percent of a
    preceding call for the same container, None without one. ``done`` are the containers in the checkpoint,
    None if it cannot be read. ``refused`` are containers rejected before: the kubelet has given them up,
    even if the API still shows them as waiting. ``known`` are the full names of the kubelet's pods, None if
    they were not read.
    """

    amount: int
    cards: frozenset[int] = frozenset()
    core: int | None = None
    done: frozenset[Key] | None = None
    refused: frozenset[Key] = frozenset()
    known: frozenset[str] | None = None


def match(allocations: Allocations, call: AllocateCall) -> Match | None:
    """The most likely container; None if no pod of this node waits for that amount.

    A container with the compute of the call comes first. Where none waits, the call for compute was for a
    container that failed since, and any container with that amount counts.
    """
    found = _likeliest(allocations, call)
    return found or (_likeliest(allocations, replace(call, core=None)) if call.core else None)


def _likeliest(allocations: Allocations, call: AllocateCall) -> Match | None:
    found = _waiting(allocations, call)
    known = [each for each in found if call.known is None or each.gpu_pod.pod.full_name in call.known]
    ranked = sorted(known or found, key=lambda each: _rank(allocations, each, call))
    return next(
        (each for each in ranked if not _would_take_from_unserved(allocations, each, ranked, call)), None
    )


def contested(allocations: Allocations, call: AllocateCall) -> bool:
    """Whether unequal pods wait for that amount, so that the result depends on the choice."""
    found = _waiting(allocations, call)
    stages = [_stage(allocations, each, call) for each in found]
    return len({_shape(each) for each, stage in zip(found, stages, strict=True) if stage == min(stages)}) > 1


def match_core(allocations: Allocations, percent: int, done: frozenset[Key] | None) -> Match | None:
    """The most likely container of a call for that percent of compute."""
    found = _next(allocations, done, lambda next_: next_.core == percent)
    return min(found, key=lambda each: _rank(allocations, each, AllocateCall(0, done=done)), default=None)


def _waiting(allocations: Allocations, call: AllocateCall) -> list[Match]:
    """The candidates of the call."""
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
    """The next container of a pod: the first without an allocation that is not running."""
    containers = [c for c in _containers(gpu_pod) if c.mem > 0 and c.name not in gpu_pod.running]
    finished = done if done is not None else frozenset(allocations.by_container)
    waiting = [c for c in containers if (gpu_pod.uid, c.name) not in finished]
    if not waiting and done is None:
        # Without a checkpoint a repeated call cannot be recognised: it is for the first container.
        waiting = containers
    return waiting[0] if waiting else None


def _containers(gpu_pod: GpuPod) -> tuple[ContainerDemand, ...]:
    demand = gpu_pod.pod.demand
    readable = demand if isinstance(demand, Demand) else demand.at_least
    return readable.containers if readable else ()


def _rank(allocations: Allocations, found: Match, call: AllocateCall) -> Rank:
    """The sort key of a candidate; the smallest wins."""
    gpu_pod, pod = found.gpu_pod, found.gpu_pod.pod
    elsewhere = not gpu_pod.claim or call.cards != {index for index, _ in gpu_pod.claim}
    stage = _stage(allocations, found, call)
    return stage, pod.terminating, elsewhere, gpu_pod.bound_ns, pod.created, pod.uid


def _stage(allocations: Allocations, found: Match, call: AllocateCall) -> int:
    """0 for a pod under admission, 1 without allocations, 2 with allocations, 3 after a rejection."""
    gpu_pod = found.gpu_pod
    if found.key in call.refused:
        return 3
    if _under_admission(gpu_pod, call):
        return 0
    return 2 if allocations.of_pod(gpu_pod.uid) or gpu_pod.served else 1


def _shape(found: Match) -> Shape:
    """Equal for twins: for each of them the response is right except for the GPU."""
    gpu_pod = found.gpu_pod
    containers = tuple((c.kind, c.mem, c.core) for c in _containers(gpu_pod))
    cards = gpu_pod.demand.cards if gpu_pod.demand else 0
    return cards, containers, gpu_pod.conflicts.get(found.container.name, ())


def _would_take_from_unserved(
    allocations: Allocations, found: Match, all_found: Sequence[Match], call: AllocateCall
) -> bool:
    """Whether repeating this allocation may take units from a pod that has none, if both do not fit.

    A pod without allocations ranks lower only after a rejection, which may have been meant for its twin, or
    if another plugin has served it. An allocation that was never confirmed may come from the call for a twin
    whose response was lost: its pod may have none.
    """
    allocation = allocations.by_container.get(found.key)
    if allocation is None or _under_admission(found.gpu_pod, call):
        return False
    if call.done is None and may_be_of_another(allocations, allocation):
        return True
    return any(
        other is not found
        and not any(each.confirmed or each.reissued for each in allocations.of_pod(other.gpu_pod.uid))
        and not has_free_beside(allocations, allocation, other.container.mem, other.container.core)
        for other in all_found
    )


def may_be_of_another(allocations: Allocations, allocation: Allocation) -> bool:
    """Whether the call of an unconfirmed allocation may have been for a pod with other GPUs here, or none.

    Only the kubelet's checkpoint and its PodResources API tell that; without them such a pod may be running
    with these units.
    """
    return not allocation.confirmed and any(
        container.mem == allocation.units
        and _may_own(allocations.by_container.get((uid, container.name)), allocation)
        for uid, gpu_pod in allocations.gpu_pods.items()
        if uid != allocation.uid
        for container in _containers(gpu_pod)
    )


def _may_own(own: Allocation | None, allocation: Allocation) -> bool:
    return own is None or (not own.confirmed and set(own.cards) != set(allocation.cards))


def _under_admission(gpu_pod: GpuPod, call: AllocateCall) -> bool:
    """Whether the checkpoint names an earlier container of the pod."""
    return call.done is not None and any(uid == gpu_pod.uid for uid, _ in call.done)


def twin_with_core(
    allocations: Allocations, last: Allocation, percent: int, done: frozenset[Key] | None
) -> bool:
    """Whether a call for compute can be for the container of the last call for memory.

    The checkpoint names a container only after both of its calls.
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
    """A container that requests that percent of compute and no memory; None if there is none."""
    return next(
        (
            Match(gpu_pod, container)
            for gpu_pod in allocations.gpu_pods.values()
            for container in _containers(gpu_pod)
            if container.core == percent and not container.mem
        ),
        None,
    )
