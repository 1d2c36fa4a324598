"""Builders of nodes, GPUs, pods and processes, with a default for each field.

GPU ``i`` is a T4 of 15079 MiB in 14 units with the UUID ``GPU-i``; pods are in the namespace ``ml``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpushare.contract import RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.exporter.regions import IsolationState, LimitedContainer
from gpushare.exporter.series import series_of
from gpushare.exporter.snapshot import CpuState, NodeSnapshot
from gpushare.isolation.files import UNUSED
from gpushare.isolation.layout import DirectoryOwner
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import CardUse, ProcessUse, Region
from gpushare.model.annotations import even_shares
from gpushare.model.cards import Card
from gpushare.model.demand import ContainerDemand, Demand, demand_of
from gpushare.model.devices import ContainerDevices, long_id
from gpushare.model.local_node import ContainerRef, GpuPod, LocalPod
from gpushare.model.modes import Mode
from gpushare.model.objects import Node, Pod
from gpushare.model.readings import CardReading, Load, ProcessReading, Readings
from tests.support.builders.scheduling import main

MIB = 1024 * 1024
T4 = 15079


def reading(index: int = 0, *processes: ProcessReading, **more: Any) -> CardReading:
    fields: dict[str, Any] = {
        "index": index,
        "uuid": f"GPU-{index}",
        "model": "Tesla T4",
        "minor": index,
        "total_bytes": T4 * MIB,
        "used_bytes": sum(each.used_bytes or 0 for each in processes),
        "free_bytes": T4 * MIB,
        "processes": processes,
    }
    return CardReading(**fields | more)


def process(pid: int, mib: int = 0, sm: int = 0) -> ProcessReading:
    return ProcessReading(pid, mib * MIB, Load(sm, 0))


def node(
    cards: int = 1, *, assigned: Mapping[str, Mapping[int, int]] | None = None, mode: Mode = Mode.SHARE
) -> Node:
    found = tuple(Card(i, 14, f"GPU-{i}", "Tesla T4", T4) for i in range(cards))
    return Node("n", found, mode, assigned=assigned or {})


def gpu_pod(
    name: str,
    *containers: ContainerDemand,
    card: int | tuple[int, ...] | None = 0,
    finished: bool = False,
    cards_label: str | None = None,
    uid: str | None = None,
) -> LocalPod:
    """A pod with 4 units in its only container; ``card`` is the GPU in its annotations."""
    demand = demand_of(containers or (main(4),), cards_label)
    assert isinstance(demand, Demand), demand.problem
    indices = (card,) if isinstance(card, int) else card
    claim = even_shares(demand, indices) if indices is not None else None
    names = [each.name for each in demand.containers]
    pod = Pod(uid or f"{name}-uid", "ml", name, demand, node="n", finished=finished, claim=claim)
    ids = {container_id(name, each): each for each in names}
    running = frozenset() if finished else frozenset(names)
    return LocalPod(f"{name}-uid", "ml", name, finished, ids, GpuPod(pod, running=running))


def other_pod(name: str) -> LocalPod:
    """A pod without GPU units."""
    return LocalPod(f"{name}-uid", "ml", name, containers={container_id(name, "main"): "main"})


def container_id(pod: str, container: str = "main") -> str:
    return f"{pod}-{container}-id"


def ref(pod: str, container: str = "main") -> ContainerRef:
    return ContainerRef(f"{pod}-uid", container_id(pod, container))


def shared(pod: str, units: int = 4, *, card: int = 0, container: str = "main") -> ContainerDevices:
    """The kubelet's devices of a container with units of a GPU."""
    ids = frozenset(long_id(Card(card, 14, f"GPU-{card}"), number) for number in range(units))
    return ContainerDevices("ml", pod, container, RESOURCE_MEM, ids)


def whole(pod: str, *cards: int) -> ContainerDevices:
    """The kubelet's devices of a container with whole GPUs."""
    return ContainerDevices("ml", pod, "main", RESOURCE_WHOLE_GPU, frozenset(f"GPU-{i}" for i in cards))


def limit(units: int = 4, *, card: int = 0) -> CardLimit:
    """The limit of this many units of a GPU."""
    return CardLimit(f"GPU-{card}", T4, units, 14)


def use(
    used: int, peak: int = 0, refusals: int = 0, refused: int = 0, needed: int = 0, *, card: int = 0
) -> CardUse:
    """The usage of a GPU in a region, in MiB."""
    sizes = (used * MIB, max(used, peak) * MIB, refusals, refused * MIB, needed * MIB)
    return CardUse(f"GPU-{card}", 0, *sizes)


def limited(
    pod: str, *uses: CardUse, pids: Iterable[int] = (), limits: Iterable[CardLimit] = ()
) -> LimitedContainer:
    """A container with a limit on GPU 0; without ``uses`` its region is unused."""
    processes = tuple(ProcessUse(pid, 1, ()) for pid in pids)
    region = Region(uses, processes) if uses else UNUSED
    return LimitedContainer(DirectoryOwner(f"{pod}-uid", "main"), tuple(limits) or (limit(),), region)


def isolation(*found: LimitedContainer, inner_pids: Mapping[int, int] | None = None) -> IsolationState:
    """The files of limited containers."""
    return IsolationState(found, inner_pids or {})


def snapshot(
    cards: Iterable[CardReading] = (),
    local_pods: Iterable[LocalPod] = (),
    devices: Iterable[ContainerDevices] = (),
    containers_by_pid: Mapping[int, ContainerRef | None] | None = None,
    **more: Any,
) -> NodeSnapshot:
    """A round in which every source answered; ``more`` replaces parts of it."""
    listed = tuple(cards)
    parts: dict[str, Any] = {
        "readings": Readings(listed),
        "containers_by_pid": containers_by_pid or {},
        "devices": tuple(devices),
        "local_pods": tuple(local_pods),
        "node": node(len(listed)),
        "isolation": IsolationState(),
        "cpus": CpuState(),
    }
    return NodeSnapshot("n", **parts | more)


def values(found: NodeSnapshot, metric: str, *labels: str, each_process: bool = False) -> dict[Any, float]:
    """The values of a metric by these of its labels, as a tuple where there are several."""
    for series in series_of(found, each_process=each_process):
        if series.metric.name == metric:
            places = [series.metric.labels.index(label) for label in labels]
            return {
                point[places[0]] if len(places) == 1 else tuple(point[each] for each in places): number
                for point, number in series.points
            }
    return {}
