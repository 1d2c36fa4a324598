"""Joins allocations with the kubelet's checkpoint: which container really got which devices. Pure.

An Allocate call does not name its pod, so the owner of an allocation is a guess until the checkpoint names
the pod that has the allocation's device IDs. Twins that were mistaken for each other are swapped here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Enforcement, Key, diverges
from gpushare.deviceplugin.core.limits import limit_of
from gpushare.errors import InvalidRequest
from gpushare.isolation.layout import IsolationMounts


@dataclass(frozen=True, slots=True)
class ServedContainer:
    """A container in the kubelet's checkpoint.

    ``first_device_id`` is its lowest device ID and ``units`` the number of its IDs. ``cards`` are the UUIDs
    that the response in the checkpoint names, empty if it names none, and ``bound`` are the limit files in
    that response, None without limits.
    """

    uid: str
    container: str
    first_device_id: str
    units: int
    cards: tuple[str, ...] = ()
    bound: IsolationMounts | None = None

    @property
    def key(self) -> Key:
        """Identifies the container."""
        return self.uid, self.container


def stale_entries(
    allocations: Allocations, served: Sequence[ServedContainer], before: frozenset[ServedContainer]
) -> frozenset[ServedContainer]:
    """The entries of removed pods, and those ``before`` that still have not changed.

    The kubelet writes its checkpoint only after a call, so an entry of a removed pod stays in it while the
    pod's device IDs are given again. A static pod that is put back has the same UID, and its entry is stale
    until a call is answered with these IDs.
    """
    return frozenset(
        entry
        for entry in served
        if (entry in before and not _was_answered(allocations, entry))
        or not (entry.uid in allocations.gpu_pods or entry.key in allocations.by_container)
    )


def _was_answered(allocations: Allocations, entry: ServedContainer) -> bool:
    """Whether the entry's allocation comes from a call, and not from the entry."""
    allocation = allocations.by_container.get(entry.key)
    return allocation is not None and allocation.at_ns > 0 and _same_call(allocation, entry)


def join(
    allocations: Allocations,
    served: Sequence[ServedContainer],
    stale: frozenset[ServedContainer] = frozenset(),
) -> Allocations:
    """The node with every allocation under the container that the checkpoint names for it.

    An allocation that the checkpoint does not name keeps its owner, unless that container has another one.
    A ``stale`` entry is not the owner of a call that came after it.
    """
    found: dict[Key, Allocation] = {}
    unconfirmed = [each for each in allocations.by_container.values() if not each.confirmed]
    unknown: list[ServedContainer] = []
    for entry in served:
        allocation = allocations.by_container.get(entry.key)
        if allocation and _same_call(allocation, entry):
            found[entry.key] = allocation if allocation.confirmed else replace(allocation, confirmed=True)
            _drop(unconfirmed, allocation)
        # A stale entry says nothing of a container that has a newer allocation.
        elif not (allocation and entry in stale):
            unknown.append(entry)
    for entry in unknown:
        candidates = () if entry in stale else unconfirmed
        allocation = next((each for each in candidates if _same_call(each, entry)), None)
        owned = _moved(allocations, allocation, entry) if allocation else _found_again(allocations, entry)
        if owned:
            found[entry.key] = owned
            _drop(unconfirmed, allocation)
    # After the loop: what a named container had before gives way to what the checkpoint says.
    others = (*_confirmed_before(allocations, served), *unconfirmed)
    rest = {each.key: each for each in others if each.key not in found}
    joined = {**rest, **found}
    return allocations if joined == allocations.by_container else replace(allocations, by_container=joined)


def _confirmed_before(allocations: Allocations, served: Sequence[ServedContainer]) -> Iterable[Allocation]:
    """The confirmed allocations. A kubelet that has forgotten one may give its device IDs again."""
    named = {entry.key for entry in served}
    return (
        each if each.key in named else replace(each, first_device_id="")
        for each in allocations.by_container.values()
        if each.confirmed
    )


def _drop(unconfirmed: list[Allocation], allocation: Allocation | None) -> None:
    unconfirmed[:] = [each for each in unconfirmed if each is not allocation]


def _same_call(allocation: Allocation, entry: ServedContainer) -> bool:
    return allocation.first_device_id == entry.first_device_id and allocation.units == entry.units


def _moved(allocations: Allocations, allocation: Allocation, entry: ServedContainer) -> Allocation:
    """The allocation under its real owner."""
    gpu_pod = allocations.gpu_pods.get(entry.uid)
    moved = replace(allocation, uid=entry.uid, container=entry.container, confirmed=True)
    if gpu_pod is None:
        return moved
    # The twin that it was mistaken for may have asked for another percentage.
    core = gpu_pod.demand.per_card.core if gpu_pod.demand else allocation.core
    return replace(moved, pod=gpu_pod.pod.full_name, core=core, diverged=diverges(allocations, moved))


def _found_again(allocations: Allocations, entry: ServedContainer) -> Allocation | None:
    """The container's forgotten allocation, if the entry can be of it; else that of the entry itself."""
    known = allocations.by_container.get(entry.key)
    forgotten = known and known.forgotten and known.units == entry.units
    if known and forgotten and set(entry.cards) <= {uuid for uuid, _ in known.cards}:
        return replace(known, first_device_id=entry.first_device_id)
    return _adopted(allocations, entry)


def _adopted(allocations: Allocations, entry: ServedContainer) -> Allocation | None:
    """An allocation that another plugin made, or that was in a lost record; None if its GPUs are unknown."""
    gpu_pod = allocations.gpu_pods.get(entry.uid)
    if not entry.cards or gpu_pod is None or entry.units % len(entry.cards):
        return None
    # The checkpoint has no units by GPU; every plugin gives equal parts.
    each = entry.units // len(entry.cards)
    allocation = Allocation(
        entry.uid,
        entry.container,
        gpu_pod.pod.full_name,
        tuple((uuid, each) for uuid in entry.cards),
        entry.first_device_id,
        gpu_pod.demand.per_card.core if gpu_pod.demand else 0,
        confirmed=True,
    )
    enforcement = _enforcement(allocations, allocation, entry.bound)
    return replace(allocation, diverged=diverges(allocations, allocation), enforcement=enforcement)


def _enforcement(
    allocations: Allocations, allocation: Allocation, bound: IsolationMounts | None
) -> Enforcement | None:
    """The limit files of the container. A limit that cannot be computed again is empty and allows nothing."""
    if bound is None:
        return None
    try:
        limit = limit_of(allocations, allocation, allocations.gpu_pods[allocation.uid].demand)
    except InvalidRequest:
        limit = ""
    return Enforcement(bound.directory, bound.version, limit, bound.launches)


def remembered(allocations: Allocations) -> frozenset[Key]:
    """The containers with an allocation, except those that the kubelet has forgotten."""
    return frozenset(key for key, each in allocations.by_container.items() if not each.forgotten)


def marked(allocations: Allocations) -> Allocations:
    """The node after its GPUs changed their indices: allocations that diverge now stay marked."""
    found = {
        key: replace(each, diverged=True)
        if each.uid in allocations.gpu_pods and diverges(allocations, each)
        else each
        for key, each in allocations.by_container.items()
    }
    return allocations if found == allocations.by_container else replace(allocations, by_container=found)


def retained(allocations: Allocations, leaving: frozenset[str]) -> Allocations:
    """The node without the allocations of deleted pods; pods in ``leaving`` still have processes."""
    kept = {
        key: each
        for key, each in allocations.by_container.items()
        if each.uid in allocations.gpu_pods or each.uid in leaving
    }
    if len(kept) == len(allocations.by_container):
        return allocations
    return replace(allocations, by_container=kept)
