"""Series of isolation: enforced limits, and differences between library and driver. Pure.

The library counts requested memory, the driver reports allocated memory. Small differences are normal:
contexts are estimated, code and buffers of the driver are not counted. Large ones mean that a
program bypasses the library, or that a region was tampered with.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpushare.contract import MPS_NAME, SYSTEM_NAMESPACE
from gpushare.exporter.allocations import ContainerName
from gpushare.exporter.labels import own_card_labels, own_container_labels
from gpushare.exporter.regions import LimitedContainer
from gpushare.exporter.snapshot import NodeSnapshot
from gpushare.exporter.usage import MeasuredUsage, owners_of, summed
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import CardUse, Region
from gpushare.model.local_node import by_uid
from gpushare.model.readings import CardReading
from gpushare.monitoring import catalogue as names
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.families import MetricSeries

_MIB: Final = 1024 * 1024
_COUNTED: Final[tuple[tuple[Metric, Callable[[CardUse], int]], ...]] = (
    (names.CONTAINER_COUNTED, lambda use: use.used),
    (names.CONTAINER_PEAK, lambda use: use.peak),
    (names.CONTAINER_REFUSALS, lambda use: use.refusals),
)
_OF_REFUSED: Final[tuple[tuple[Metric, Callable[[CardUse], int]], ...]] = (
    (names.CONTAINER_REFUSED, lambda use: use.refused),
    (names.CONTAINER_NEEDED, lambda use: use.needed),
)
"""0 without a refused request."""


@dataclass(frozen=True, slots=True)
class _CardLimitUse:
    """A container's limit on one GPU. ``use`` comes from its region, None if unknown.

    ``pids`` are the processes in its region, by their PIDs inside the container, and ``managed_bytes`` is
    their managed memory, which the driver does not report for a process. ``crowded`` are the processes of the
    container that got no slot in it.
    """

    container: ContainerName
    card: CardReading
    limit_bytes: int
    use: CardUse | None
    pids: frozenset[int]
    managed_bytes: int
    crowded: int


def limits(snapshot: NodeSnapshot, usage: MeasuredUsage) -> Iterator[MetricSeries]:
    """Yield the series of containers with limits; only the limit if the region is invalid."""
    node = snapshot.node_name
    limited = list(_limit_uses(snapshot))
    labelled = [(own_container_labels(node, each.card, each.container), each) for each in limited]
    yield MetricSeries(names.CONTAINER_LIMIT, [(labels, each.limit_bytes) for labels, each in labelled])
    for metric, read in _COUNTED:
        yield MetricSeries(metric, [(labels, read(each.use)) for labels, each in labelled if each.use])
    for metric, read in _OF_REFUSED:
        yield MetricSeries(
            metric,
            [(labels, read(each.use)) for labels, each in labelled if each.use and _is_held(each, read)],
        )
    yield MetricSeries(
        names.CONTAINER_CROWDED, [(labels, each.crowded) for labels, each in labelled if each.use]
    )
    driver_bytes = summed(usage.uses, lambda use: (use.container, use.card.uuid), lambda use: use.used_bytes)
    beyond = [
        (labels, reported - each.use.used, each.managed_bytes)
        for labels, each in labelled
        if each.use and (reported := driver_bytes.get((each.container, each.card.uuid))) is not None
    ]
    yield MetricSeries(
        names.CONTAINER_UNCOUNTED, [(labels, max(0, number + managed)) for labels, number, managed in beyond]
    )
    yield MetricSeries(names.CONTAINER_UNSEEN, [(labels, max(0, -number)) for labels, number, _ in beyond])
    unlimited = _unlimited_processes(snapshot, limited)
    yield MetricSeries(
        names.CARD_UNHELD,
        [
            (own_card_labels(node, card), unlimited[card.uuid])
            for card in snapshot.cards
            if card.uuid in unlimited
        ],
    )


# --- limits and counted memory ------------------------------------------------------------------


def _limit_uses(snapshot: NodeSnapshot) -> Iterator[_CardLimitUse]:
    """Yield the limits of all containers on all GPUs; none while no GPU is read."""
    cards = {card.uuid: card for card in snapshot.cards}
    local_pods = by_uid(each for each in snapshot.local_pods or () if not each.finished)
    for limited in snapshot.isolation.containers if snapshot.isolation else ():
        if local_pod := local_pods.get(limited.owner.uid):
            container = ContainerName(local_pod.namespace, local_pod.name, limited.owner.container)
            yield from _of_container(limited, container, cards)


def _of_container(
    limited: LimitedContainer, container: ContainerName, cards: Mapping[str, CardReading]
) -> Iterator[_CardLimitUse]:
    pids = frozenset(each.pid for each in limited.region.processes) if limited.region else frozenset[int]()
    for limit in limited.limits:
        if card := cards.get(limit.uuid):
            managed = _managed_bytes(limited.region, limit.uuid) if limited.region else 0
            crowded = limited.region.crowded if limited.region else 0
            limit_bytes = limit.limit_mib * _MIB
            yield _CardLimitUse(container, card, limit_bytes, _use(limited, limit), pids, managed, crowded)


def _managed_bytes(region: Region, uuid: str) -> int:
    """The managed memory of the processes in a region."""
    return sum(
        each.managed[index]
        for index, card in enumerate(region.cards)
        for each in region.processes
        if card.uuid == uuid and each.managed
    )


def _use(limited: LimitedContainer, limit: CardLimit) -> CardUse | None:
    if limited.region is None:
        return None
    unused = CardUse(limit.uuid, limit.limit_mib * _MIB, 0, 0, 0)
    return next((each for each in limited.region.cards if each.uuid == limit.uuid), unused)


def _is_held(limited: _CardLimitUse, read: Callable[[CardUse], int]) -> bool:
    """Whether there is a number, and the GPU has so much: a container can write any into its region."""
    number, total = read(limited.use) if limited.use else 0, limited.card.total_bytes
    return number > 0 and (total is None or number <= total)


# --- processes without a limit ------------------------------------------------------------------


def _unlimited_processes(snapshot: NodeSnapshot, limited: Iterable[_CardLimitUse]) -> dict[str, int]:
    """Return the number of processes without a limit by UUID of each GPU with limits.

    Excluded, because unknown: processes of pods that the API does not list, of containers with an invalid
    region, and those that have ended.
    """
    if not (snapshot.readings and snapshot.isolation):
        return {}
    if snapshot.containers_by_pid is None or snapshot.local_pods is None:
        return {}
    owners = owners_of(snapshot.containers_by_pid, snapshot.local_pods)
    by_container = {(each.container, each.card.uuid): each for each in limited}
    counts = {each.card.uuid: 0 for each in by_container.values()}
    for card in snapshot.cards:
        for process in card.processes or ():
            owner, inner = owners.get(process.pid), snapshot.isolation.inner_pids.get(process.pid)
            if card.uuid in counts and owner and inner:
                counts[card.uuid] += _is_unlimited(owner, inner, by_container.get((owner, card.uuid)))
    return counts


def _is_unlimited(owner: ContainerName, inner: int, limited: _CardLimitUse | None) -> bool:
    unnamed = bool(owner.pod) and not owner.container
    # MPS servers work on behalf of the containers.
    is_mps_server = (owner.namespace, owner.container) == (SYSTEM_NAMESPACE, MPS_NAME)
    if unnamed or is_mps_server or (limited and limited.use is None):
        return False
    return limited is None or inner not in limited.pids
