"""Finds the container that an Allocate call is for; the call does not name it. Pure.

The kubelet admits one pod at a time and calls Allocate for its containers in order, init containers first,
once per resource (kubernetes pkg/kubelet/cm/devicemanager, ``allocateContainerResources``). It writes its
checkpoint after each container. So at any call all earlier containers are known by name, and only the next
container of a pod is a candidate. Among equal pods the oldest is taken: they are interchangeable, and the
checkpoint shows later which one it was. Unequal pods with a container of that amount are distinguished by
the kubelet's list of pods, which contains a pod only from its admission on (``HandlePodAdditions``).

A checkpoint that is lost or cannot be read names nobody. Then only a call that can be for one container, or
for one of equal ones, has a match.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpushare.deviceplugin.core.allocations import AllocateSnapshot, Allocation, Allocations, Key
from gpushare.deviceplugin.core.device_ids import indices_in
from gpushare.model.demand import ContainerDemand, Demand
from gpushare.model.gpu_choice import OtherPods
from gpushare.model.local_node import GpuPod


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

    ``ids`` are its device IDs, empty if they are not known yet. ``core`` is the percent of a preceding call
    for the same container, None without one. ``refused`` are containers rejected before: the
    kubelet has given them up, even if the API still shows them as waiting. ``known`` are the full names of
    the kubelet's pods, None if they were not read.
    """

    amount: int
    ids: Sequence[str] = ()
    core: int | None = None
    refused: frozenset[Key] = frozenset()
    known: frozenset[str] | None = None


def match(snapshot: AllocateSnapshot, call: AllocateCall) -> Match | None:
    """The most likely container; None if no pod of this node waits for that amount, or if it is unclear.

    A container with the compute of the call comes first. Where none waits, the call for compute was for a
    container that failed since, and any container with that amount counts, if the checkpoint shows them all.
    """
    found = _likeliest(snapshot, call)
    if found or call.core is None or not snapshot.readable:
        return found
    return _likeliest(snapshot, replace(call, core=None))


def _likeliest(snapshot: AllocateSnapshot, call: AllocateCall) -> Match | None:
    found = candidates(snapshot, call)
    if len(found) == 1:
        return found[0]
    if is_unclear(snapshot, found):
        return None
    # The device IDs follow from what the agent preferred for some pod a moment ago.
    cards = indices_in(call.ids, snapshot.allocations.cards)
    return min(found, key=lambda each: _rank(snapshot, each, call, cards), default=None)


def candidates(snapshot: AllocateSnapshot, call: AllocateCall) -> Sequence[Match]:
    """The containers that a call may be for. Those with an allocation count only without any other.

    The kubelet may have forgotten such an allocation and call for its container again. But that one may be
    running, and repeating its allocation for another container would over-commit the GPU. A new allocation
    never does, because the checkpoint will show which container has it.
    """
    waiting = _waiting(snapshot, call)
    known = [each for each in waiting if call.known is None or each.gpu_pod.pod.full_name in call.known]
    # A list with none of them says nothing.
    found = known or waiting
    if len(found) == 1 or not snapshot.readable:
        return found
    return [each for each in found if not _is_doubtful(snapshot, each)] or found


def is_unclear(snapshot: AllocateSnapshot, found: Sequence[Match]) -> bool:
    """Whether these are several candidates that must not be taken for each other."""
    if len(found) == 1:
        return False
    return any(_is_doubtful(snapshot, each) for each in found) or (
        not snapshot.readable and _differ(snapshot, found)
    )


def _is_doubtful(snapshot: AllocateSnapshot, found: Match) -> bool:
    """Whether the container has an allocation that the kubelet has forgotten."""
    allocation = snapshot.allocations.by_container.get(found.key)
    return allocation is not None and allocation.confirmed and not _under_admission(snapshot, found.gpu_pod)


def contested(snapshot: AllocateSnapshot, call: AllocateCall) -> bool:
    """Whether unequal pods wait for that amount, so that the result depends on the choice."""
    found = _waiting(snapshot, call)
    if len(found) == 1:
        return False
    stages = [_stage(snapshot, each, call) for each in found]
    best = [each for each, stage in zip(found, stages, strict=True) if stage == min(stages)]
    return is_unclear(snapshot, found) or _differ(snapshot, best)


def match_core(snapshot: AllocateSnapshot, percent: int) -> Match | None:
    """The most likely container of a call for that percent of compute."""
    found = _next(snapshot, lambda next_: next_.core == percent)
    return min(found, key=lambda each: _rank(snapshot, each, AllocateCall(0), _NO_CARDS), default=None)


def _waiting(snapshot: AllocateSnapshot, call: AllocateCall) -> list[Match]:
    """The next containers with the amount of the call."""
    return _next(snapshot, lambda next_: next_.mem == call.amount and call.core in (None, next_.core))


def _next(snapshot: AllocateSnapshot, suits: Callable[[ContainerDemand], bool]) -> list[Match]:
    return [
        Match(gpu_pod, container)
        for gpu_pod in snapshot.allocations.gpu_pods.values()
        if (container := next_container(gpu_pod, snapshot.done)) and suits(container)
    ]


_NO_CARDS: Final[frozenset[int]] = frozenset()
Rank = tuple[int, bool, bool, int, str, str]
Shape = tuple[object, ...]


def next_container(gpu_pod: GpuPod, done: frozenset[Key]) -> ContainerDemand | None:
    """The next container of a pod: the first without devices that is not running."""
    uid, running = gpu_pod.uid, gpu_pod.running
    waiting = (
        container
        for container in _containers(gpu_pod)
        if container.mem > 0 and container.name not in running and (uid, container.name) not in done
    )
    return next(waiting, None)


def _containers(gpu_pod: GpuPod) -> tuple[ContainerDemand, ...]:
    demand = gpu_pod.pod.demand
    # The kubelet calls for a malformed pod too; it is matched, so that it can be rejected by name.
    readable = demand if isinstance(demand, Demand) else demand.at_least
    return readable.containers if readable else ()


def _rank(snapshot: AllocateSnapshot, found: Match, call: AllocateCall, cards: frozenset[int]) -> Rank:
    """The sort key of a candidate; the smallest wins."""
    gpu_pod, pod = found.gpu_pod, found.gpu_pod.pod
    elsewhere = not gpu_pod.claim or cards != {index for index, _ in gpu_pod.claim}
    # Of twins, one that is being deleted is called for last: the kubelet may have dropped it.
    stage = _stage(snapshot, found, call)
    return stage, pod.terminating, elsewhere, gpu_pod.bound_ns, pod.created, pod.uid


def _stage(snapshot: AllocateSnapshot, found: Match, call: AllocateCall) -> int:
    """0 for a pod under admission, 1 without allocations, 2 with allocations, 3 after a rejection."""
    gpu_pod = found.gpu_pod
    if found.key in call.refused:
        # Not never: the rejection may have hit its twin, and then this one still gets a call.
        return 3
    if _under_admission(snapshot, gpu_pod):
        return 0
    # Another plugin marks a pod as served only in its annotations.
    return 2 if snapshot.allocations.of_pod(gpu_pod.uid) or gpu_pod.served else 1


def _differ(snapshot: AllocateSnapshot, found: Sequence[Match]) -> bool:
    return len({_shape(snapshot, each) for each in found}) > 1


def _shape(snapshot: AllocateSnapshot, found: Match) -> Shape:
    """Equal for twins: for each of them the response is right except for the GPU, and may have any GPU.

    Pods with another choice of GPUs are no twins, nor are those of which another pod chooses by one.
    """
    gpu_pod = found.gpu_pod
    containers = tuple((c.kind, c.mem, c.core) for c in _containers(gpu_pod))
    cards = gpu_pod.demand.cards if gpu_pod.demand else 0
    choice = gpu_pod.demand.gpus if gpu_pod.demand else None
    conflicts = gpu_pod.conflicts.get(found.container.name, ())
    return cards, containers, conflicts, choice, _choosers(snapshot.allocations, gpu_pod)


def _choosers(allocations: Allocations, gpu_pod: GpuPod) -> frozenset[tuple[OtherPods, bool]]:
    """How pods of the node choose by this one: for the same GPU, or for another GPU."""
    name = gpu_pod.pod.full_name, gpu_pod.pod.labels
    choices = [each.demand.gpus for each in allocations.gpu_pods.values() if each.demand]
    return frozenset(
        (pods, same)
        for choice in choices
        if choice
        for same, pods in ((True, choice.same_as), (False, choice.other_than))
        if pods and name in pods
    )


def _under_admission(snapshot: AllocateSnapshot, gpu_pod: GpuPod) -> bool:
    """Whether an earlier container of the pod has its devices: the kubelet continues with the next one."""
    return any(uid == gpu_pod.uid for uid, _ in snapshot.done)


def twin_with_core(snapshot: AllocateSnapshot, last: Allocation, percent: int) -> bool:
    """Whether a call for compute can be for the container of the last call for memory."""
    # The checkpoint names a container only after both of its calls.
    if snapshot.readable and last.key in snapshot.done:
        return False
    return any(
        c.mem == last.units and c.core == percent
        for gpu_pod in snapshot.allocations.gpu_pods.values()
        for c in _containers(gpu_pod)
        if (key := (gpu_pod.uid, c.name)) == last.key or key not in snapshot.done
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
