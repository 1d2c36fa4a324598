"""GPU usage of containers, from the processes on each GPU.

A container with an allocation but without processes is idle and reported as 0, because autoscalers need the
zero. If a source that attributes processes to containers is missing, usage is unknown and not reported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from gpushare.exporter.allocations import CardAllocation, ContainerName, allocations, container_of
from gpushare.exporter.snapshot import NodeSnapshot
from gpushare.model.local_node import ContainerRef, LocalPod, by_uid
from gpushare.model.readings import CardReading, ProcessReading

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Use:
    """Usage of one GPU by a container's processes, or by one of them (``pid``; 0 for the sum)."""

    card: CardReading
    container: ContainerName
    used_bytes: int | None
    sm_percent: int | None
    pid: int = 0


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """Allocations and usage of a node at one moment."""

    allocated: tuple[tuple[CardReading, CardAllocation], ...]
    uses: tuple[Use, ...]


def node_usage(snapshot: NodeSnapshot, *, each_process: bool = False) -> MeasuredUsage:
    """Return allocations and usage; usage by process with ``each_process``."""
    cards = {card.uuid: card for card in snapshot.cards}
    allocated = tuple((cards[each.uuid], each) for each in _once(allocations(snapshot)))
    if snapshot.local_pods is None or snapshot.containers_by_pid is None:
        return MeasuredUsage(allocated, ())
    owners = owners_of(snapshot.containers_by_pid, snapshot.local_pods)
    pods = {(each.namespace, each.name) for each in snapshot.local_pods}
    uses: list[Use] = []
    for card in cards.values():
        idle = [
            each.container
            for reading, each in allocated
            if reading is card and (each.container.namespace, each.container.pod) in pods
        ]
        uses += _uses(card, idle, owners, each_process=each_process)
    return MeasuredUsage(allocated, tuple(uses))


def _once(found: Iterable[CardAllocation]) -> Iterable[CardAllocation]:
    """Return one allocation per container and GPU: the largest, e.g. a whole GPU over units of it."""
    largest: dict[tuple[ContainerName, str], CardAllocation] = {}
    for each in found:
        key = each.container, each.uuid
        if key not in largest or each.allocated_bytes > largest[key].allocated_bytes:
            largest[key] = each
    return largest.values()


def owners_of(
    containers_by_pid: Mapping[int, ContainerRef | None], local_pods: Iterable[LocalPod]
) -> dict[int, ContainerName]:
    """Return the container of each process; processes of unknown pods are omitted."""
    pods = by_uid(local_pods)
    return {
        pid: container_of(pods[ref.pod_uid], ref.container_id) if ref else ContainerName()
        for pid, ref in containers_by_pid.items()
        if ref is None or ref.pod_uid in pods
    }


def summed(
    uses: Iterable[Use], key: Callable[[Use], K], read: Callable[[Use], float | None]
) -> dict[K, float | None]:
    """Return the sums by key; None if the value of one use is unknown."""
    sums: dict[K, float | None] = {}
    for use in uses:
        before, value = sums.get(key(use), 0), read(use)
        sums[key(use)] = None if before is None or value is None else before + value
    return sums


def _uses(
    card: CardReading,
    idle: Iterable[ContainerName],
    owners: Mapping[int, ContainerName],
    *,
    each_process: bool,
) -> Iterator[Use]:
    if card.processes is None:
        return
    groups: dict[ContainerName, list[ProcessReading]] = {container: [] for container in idle}
    for process in card.processes:
        if owner := owners.get(process.pid):
            groups.setdefault(owner, []).append(process)
    for container, processes in groups.items():
        if each_process and processes:
            yield from (_use(card, container, [each], each.pid) for each in processes)
        else:
            yield _use(card, container, processes)


def _use(card: CardReading, container: ContainerName, processes: list[ProcessReading], pid: int = 0) -> Use:
    used = [each.used_bytes for each in processes]
    loads = [each.load for each in processes]
    return Use(
        card,
        container,
        None if None in used else sum(each for each in used if each is not None),
        None if None in loads else sum(each.sm for each in loads if each is not None),
        pid,
    )
