"""Limits and counted memory of containers, for comparison with the driver's readings. Pure.

The library counts requested memory, the driver reports allocated memory. Small differences are normal:
contexts are estimated, code and buffers of the driver are not counted. Large ones mean that a
program bypasses the library, or that a region was tampered with.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpushare.contract import MPS_NAME, SYSTEM_NAMESPACE
from gpushare.exporter.allocations import ContainerName
from gpushare.exporter.regions import LimitedContainer
from gpushare.exporter.snapshot import Snapshot
from gpushare.exporter.usage import owners_of
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import CardUse
from gpushare.model.readings import CardReading

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CardLimitUse:
    """A container's limit on one GPU. ``use`` comes from its region, None if unknown.

    ``pids`` are the processes in its region, by their PIDs inside the container.
    """

    container: ContainerName
    card: CardReading
    limit_bytes: int
    use: CardUse | None
    pids: frozenset[int]


def limit_uses(snapshot: Snapshot) -> Iterator[CardLimitUse]:
    """Yield the limits of all containers on all GPUs; none while no GPU is read."""
    cards = {card.uuid: card for card in snapshot.readings.cards} if snapshot.readings else {}
    node_pods = {each.uid: each for each in snapshot.node_pods or () if not each.finished}
    for limited in snapshot.isolation.containers if snapshot.isolation else ():
        if node_pod := node_pods.get(limited.owner.uid):
            container = ContainerName(node_pod.namespace, node_pod.name, limited.owner.container)
            yield from _shares(limited, container, cards)


def _shares(
    limited: LimitedContainer, container: ContainerName, cards: Mapping[str, CardReading]
) -> Iterator[CardLimitUse]:
    pids = frozenset(each.pid for each in limited.region.processes) if limited.region else frozenset[int]()
    for limit in limited.limits:
        if card := cards.get(limit.uuid):
            yield CardLimitUse(container, card, limit.limit_mib * _MIB, _use(limited, limit), pids)


def _use(limited: LimitedContainer, limit: CardLimit) -> CardUse | None:
    if limited.region is None:
        return None
    unused = CardUse(limit.uuid, limit.limit_mib * _MIB, 0, 0, 0)
    return next((each for each in limited.region.cards if each.uuid == limit.uuid), unused)


def unlimited_processes(snapshot: Snapshot, shares: Iterable[CardLimitUse]) -> dict[str, int]:
    """Return the number of processes without a limit by UUID of each GPU with limits.

    Excluded, because unknown: processes of pods that the API does not list, of containers with an invalid
    region, and those that have ended.
    """
    if not (snapshot.readings and snapshot.isolation):
        return {}
    if snapshot.containers_by_pid is None or snapshot.node_pods is None:
        return {}
    owners = owners_of(snapshot.containers_by_pid, snapshot.node_pods)
    limited = {(share.container, share.card.uuid): share for share in shares}
    counts = {share.card.uuid: 0 for share in limited.values()}
    for card in snapshot.readings.cards:
        for process in card.processes or ():
            owner, inner = owners.get(process.pid), snapshot.isolation.inner_pids.get(process.pid)
            if card.uuid in counts and owner and inner:
                counts[card.uuid] += _is_unlimited(owner, inner, limited.get((owner, card.uuid)))
    return counts


def _is_unlimited(owner: ContainerName, inner: int, share: CardLimitUse | None) -> bool:
    unnamed = bool(owner.pod) and not owner.container
    # MPS servers work on behalf of the containers.
    is_mps_server = (owner.namespace, owner.container) == (SYSTEM_NAMESPACE, MPS_NAME)
    if unnamed or is_mps_server or (share and share.use is None):
        return False
    return share is None or inner not in share.pids
