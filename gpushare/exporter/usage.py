"""What each container does on each card: processes, by the container that they run in.

A container that was given something of a card and has no process on it is idle, and told so: an
autoscaler needs the zero. Where a source is missing by which processes are told apart, nobody's use is
known, and nothing is said of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpushare.adapters.cgroups import ContainerRef
from gpushare.exporter.allocations import CardAllocation, ContainerName, allocations, container_of
from gpushare.exporter.snapshot import Snapshot
from gpushare.model.own_node import NodePod
from gpushare.model.readings import CardReading, ProcessReading


@dataclass(frozen=True, slots=True)
class Use:
    """Processes of one container on one card, or one of them. ``pid`` is 0 for all of them together."""

    card: CardReading
    container: ContainerName
    used_bytes: int | None
    sm_percent: int | None
    pid: int = 0


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """All that is known of containers and cards at one moment."""

    allocated: tuple[tuple[CardReading, CardAllocation], ...]
    uses: tuple[Use, ...]


def node_usage(snapshot: Snapshot, *, each_process: bool = False) -> NodeUsage:
    """Who was given what, and who uses what; with ``each_process`` process by process."""
    cards = {card.uuid: card for card in snapshot.readings.cards} if snapshot.readings else {}
    allocated = tuple((cards[each.uuid], each) for each in _once(allocations(snapshot)))
    if snapshot.node_pods is None or snapshot.containers_by_pid is None:
        return NodeUsage(allocated, ())
    owners = owners_of(snapshot.containers_by_pid, snapshot.node_pods)
    pods = {(each.namespace, each.name) for each in snapshot.node_pods}
    uses: list[Use] = []
    for card in cards.values():
        idle = [
            each.container
            for reading, each in allocated
            if reading is card and (each.container.namespace, each.container.pod) in pods
        ]
        uses += _uses(card, idle, owners, each_process=each_process)
    return NodeUsage(allocated, tuple(uses))


def _once(found: Iterable[CardAllocation]) -> Iterable[CardAllocation]:
    """One for each container and card: who was given a card twice, as a share and whole, has it whole."""
    largest: dict[tuple[ContainerName, str], CardAllocation] = {}
    for each in found:
        key = each.container, each.uuid
        if key not in largest or each.allocated_bytes > largest[key].allocated_bytes:
            largest[key] = each
    return largest.values()


def owners_of(
    containers_by_pid: Mapping[int, ContainerRef | None], node_pods: Iterable[NodePod]
) -> dict[int, ContainerName]:
    """Whose each process is; without those whose pod is not known, any more or yet."""
    by_uid = {each.uid: each for each in node_pods}
    return {
        pid: container_of(by_uid[ref.pod_uid], ref.container_id) if ref else ContainerName()
        for pid, ref in containers_by_pid.items()
        if ref is None or ref.pod_uid in by_uid
    }


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
