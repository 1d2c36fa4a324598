"""Grants and the kubelet's checkpoint joined: who really got what.

An Allocate call has no pod in it, so a grant's owner is a likely one until the checkpoint names the pod
that holds the grant's device IDs. Twins that were taken for each other change places here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Enforcement, Key, diverges
from gpushare.deviceplugin.core.limits import limit_of
from gpushare.errors import InvalidRequest
from gpushare.isolation.layout import Bound


@dataclass(frozen=True, slots=True)
class ServedContainer:
    """A container that the kubelet's checkpoint names.

    ``lead`` is its lowest device ID and ``units`` the number of its IDs. ``cards`` are the UUIDs that
    the answer kept in the checkpoint speaks of, empty where it does not tell, and ``bound`` what holds it, if
    something does.
    """

    uid: str
    container: str
    first_device_id: str
    units: int
    cards: tuple[str, ...] = ()
    bound: Bound | None = None

    @property
    def key(self) -> Key:
        """Whose it is."""
        return self.uid, self.container


def join(allocations: Allocations, served: Sequence[ServedContainer]) -> Allocations:
    """The tenancy with every grant under the name of the container that the checkpoint gives it.

    What the checkpoint does not name keeps its likely owner, unless another grant is that owner's.
    """
    grants: dict[Key, Allocation] = {}
    loose = [grant for grant in allocations.by_container.values() if not grant.confirmed]
    strangers: list[ServedContainer] = []
    for entry in served:
        grant = allocations.by_container.get(entry.key)
        if grant and _same_call(grant, entry):
            grants[entry.key] = grant if grant.confirmed else replace(grant, confirmed=True, reissued=False)
            _drop(loose, grant)
        else:
            strangers.append(entry)
    for entry in strangers:
        grant = next((grant for grant in loose if _same_call(grant, entry)), None)
        found = _owned(allocations, grant, entry) if grant else _adopted(allocations, entry)
        if found:
            grants[entry.key] = found
            _drop(loose, grant)
    rest = {
        g.key: g for g in (*_sure(allocations), *loose, *_kept(allocations, grants)) if g.key not in grants
    }
    joined = {**rest, **grants}
    return allocations if joined == allocations.by_container else replace(allocations, by_container=joined)


def _drop(loose: list[Allocation], grant: Allocation | None) -> None:
    loose[:] = [each for each in loose if each is not grant]


def _sure(allocations: Allocations) -> Iterable[Allocation]:
    return (grant for grant in allocations.by_container.values() if grant.confirmed)


def _kept(allocations: Allocations, grants: Mapping[Key, Allocation]) -> Iterable[Allocation]:
    """What containers had before they were taken for others that asked."""
    asked = {(grant.first_device_id, grant.units) for grant in grants.values()}
    return (
        replace(grant, confirmed=True, reissued=False)
        for grant in allocations.by_container.values()
        if grant.reissued and (grant.first_device_id, grant.units) in asked
    )


def _same_call(grant: Allocation, entry: ServedContainer) -> bool:
    return grant.first_device_id == entry.first_device_id and grant.units == entry.units


def _owned(allocations: Allocations, grant: Allocation, entry: ServedContainer) -> Allocation:
    """The grant under its real owner's name."""
    gpu_pod = allocations.gpu_pods.get(entry.uid)
    moved = replace(grant, uid=entry.uid, container=entry.container, confirmed=True, reissued=False)
    if gpu_pod is None:
        return moved
    core = gpu_pod.demand.per_card.core if gpu_pod.demand else grant.core
    return replace(moved, pod=gpu_pod.pod.full_name, core=core, diverged=diverges(allocations, moved))


def _adopted(allocations: Allocations, entry: ServedContainer) -> Allocation | None:
    """A grant that somebody else made: another plugin, or one of ours whose record is lost."""
    gpu_pod = allocations.gpu_pods.get(entry.uid)
    uuids = [uuid for uuid in entry.cards if allocations.index_of(uuid) is not None]
    if not uuids or gpu_pod is None or entry.units % len(uuids):
        return None
    each = entry.units // len(uuids)
    grant = Allocation(
        entry.uid,
        entry.container,
        gpu_pod.pod.full_name,
        tuple((uuid, each) for uuid in uuids),
        entry.first_device_id,
        gpu_pod.demand.per_card.core if gpu_pod.demand else 0,
        confirmed=True,
    )
    hold = _hold_of(allocations, grant, entry.bound)
    return replace(grant, diverged=diverges(allocations, grant), enforcement=hold)


def _hold_of(allocations: Allocations, grant: Allocation, bound: Bound | None) -> Enforcement | None:
    """What holds it. Where its limit was lost and cannot be said again, an empty one gives out nothing."""
    if bound is None:
        return None
    try:
        limit = limit_of(allocations, grant, allocations.gpu_pods[grant.uid].demand)
    except InvalidRequest:
        limit = ""
    return Enforcement(bound.place, bound.version, limit, bound.launches)


def marked(allocations: Allocations) -> Allocations:
    """The tenancy after its cards changed their places: who is astray now stays so."""
    grants = {
        key: replace(grant, diverged=True)
        if grant.uid in allocations.gpu_pods and diverges(allocations, grant)
        else grant
        for key, grant in allocations.by_container.items()
    }
    return allocations if grants == allocations.by_container else replace(allocations, by_container=grants)


def retained(allocations: Allocations, leaving: frozenset[str]) -> Allocations:
    """The tenancy without the grants of pods that are gone; ``leaving`` ones still have processes."""
    kept = {
        key: grant
        for key, grant in allocations.by_container.items()
        if grant.uid in allocations.gpu_pods or grant.uid in leaving
    }
    return (
        allocations if len(kept) == len(allocations.by_container) else replace(allocations, by_container=kept)
    )
