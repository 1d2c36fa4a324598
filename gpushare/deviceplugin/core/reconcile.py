"""Grants and the kubelet's checkpoint joined: who really got what.

An Allocate call has no pod in it, so a grant's owner is a likely one until the checkpoint names the pod
that holds the grant's device IDs. Twins that were taken for each other change places here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Enforcement, Key
from gpushare.deviceplugin.core.limits import limit_of
from gpushare.errors import InvalidRequest
from gpushare.isolation.layout import IsolationMounts


@dataclass(frozen=True, slots=True)
class ServedContainer:
    """A container that the kubelet's checkpoint names.

    ``lead`` is its lowest device ID and ``units`` the number of its IDs. ``cards`` are the UUIDs that
    the answer kept in the checkpoint speaks of, empty where it does not tell, and ``bound`` what holds it, if
    something does.
    """

    uid: str
    container: str
    lead: str
    units: int
    cards: tuple[str, ...] = ()
    bound: IsolationMounts | None = None

    @property
    def key(self) -> Key:
        """Whose it is."""
        return self.uid, self.container


def join(allocations: Allocations, served: Sequence[ServedContainer]) -> Allocations:
    """The tenancy with every grant under the name of the container that the checkpoint gives it.

    What the checkpoint does not name keeps its likely owner, unless another grant is that owner's.
    """
    grants: dict[Key, Allocation] = {}
    loose = [grant for grant in allocations.grants.values() if not grant.sure]
    strangers: list[ServedContainer] = []
    for entry in served:
        grant = allocations.grants.get(entry.key)
        if grant and _same_call(grant, entry):
            grants[entry.key] = grant if grant.sure else replace(grant, sure=True, again=False)
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
    return allocations if joined == allocations.grants else replace(allocations, grants=joined)


def _drop(loose: list[Allocation], grant: Allocation | None) -> None:
    loose[:] = [each for each in loose if each is not grant]


def _sure(allocations: Allocations) -> Iterable[Allocation]:
    return (grant for grant in allocations.grants.values() if grant.sure)


def _kept(allocations: Allocations, grants: Mapping[Key, Allocation]) -> Iterable[Allocation]:
    """What containers had before they were taken for others that asked."""
    asked = {(grant.lead, grant.units) for grant in grants.values()}
    return (
        replace(grant, sure=True, again=False)
        for grant in allocations.grants.values()
        if grant.again and (grant.lead, grant.units) in asked
    )


def _same_call(grant: Allocation, entry: ServedContainer) -> bool:
    return grant.lead == entry.lead and grant.units == entry.units


def _owned(allocations: Allocations, grant: Allocation, entry: ServedContainer) -> Allocation:
    """The grant under its real owner's name."""
    gpu_pod = allocations.gpu_pods.get(entry.uid)
    moved = replace(grant, uid=entry.uid, container=entry.container, sure=True, again=False)
    if gpu_pod is None:
        return moved
    core = gpu_pod.demand.per_card.core if gpu_pod.demand else grant.core
    return replace(moved, pod=gpu_pod.pod.full_name, core=core, astray=is_astray(allocations, moved))


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
        entry.lead,
        gpu_pod.demand.per_card.core if gpu_pod.demand else 0,
        sure=True,
    )
    hold = _hold_of(allocations, grant, entry.bound)
    return replace(grant, astray=is_astray(allocations, grant), hold=hold)


def _hold_of(
    allocations: Allocations, grant: Allocation, bound: IsolationMounts | None
) -> Enforcement | None:
    """What holds it. Where its limit was lost and cannot be said again, an empty one gives out nothing."""
    if bound is None:
        return None
    try:
        limit = limit_of(allocations, grant, allocations.gpu_pods[grant.uid].demand)
    except InvalidRequest:
        limit = ""
    return Enforcement(bound.directory, bound.version, limit, bound.launches)


def is_astray(allocations: Allocations, grant: Allocation) -> bool:
    """Whether the pod's annotations do not tell the grant's cards, or nothing proves that they do."""
    gpu_pod = allocations.gpu_pods.get(grant.uid)
    promised = {index for index, _ in (gpu_pod.claim or ())} if gpu_pod else set()
    return promised != {allocations.index_of(uuid) for uuid, _ in grant.cards} or not (
        gpu_pod and gpu_pod.pod.seal
    )


def marked(allocations: Allocations) -> Allocations:
    """The tenancy after its cards changed their places: who is astray now stays so."""
    grants = {
        key: replace(grant, astray=True)
        if grant.uid in allocations.gpu_pods and is_astray(allocations, grant)
        else grant
        for key, grant in allocations.grants.items()
    }
    return allocations if grants == allocations.grants else replace(allocations, grants=grants)


def retained(allocations: Allocations, leaving: frozenset[str]) -> Allocations:
    """The tenancy without the grants of pods that are gone; ``leaving`` ones still have processes."""
    kept = {
        key: grant
        for key, grant in allocations.grants.items()
        if grant.uid in allocations.gpu_pods or grant.uid in leaving
    }
    return allocations if len(kept) == len(allocations.grants) else replace(allocations, grants=kept)
