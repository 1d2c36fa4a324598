"""What would fit in the cluster now, by kind of node, as documents of the usage API. Pure.

Counted are GPUs and their units, as the extender would place pods. What does not belong here: CPU, memory,
quotas and selectors, which only the pod and kube-scheduler know.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpushare.contract import POOL_LABELS
from gpushare.model.demand import ContainerDemand, ContainerKind, Demand, demand_of
from gpushare.model.usage_documents import GpuFit, GpuFitList
from gpushare.overview.memory_units import unit_of
from gpushare.overview.node_view import view_of
from gpushare.overview.objects import ClusterNode
from gpushare.scheduling.advice.capacity import Room, fitting_pods, largest_request, rooms_of
from gpushare.scheduling.book import Book
from gpushare.scheduling.fitting import PodRequest, unfit

_OF_KUBERNETES: Final = "node.kubernetes.io/"
"""Prefix of the taints that Kubernetes sets for a moment, such as for a node that is not ready."""


class NodeKind(NamedTuple):
    """What makes two nodes of one kind."""

    model: str
    unit: str
    mib: int
    units: int
    mode: str
    labels: tuple[tuple[str, str], ...]
    taints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A node with GPUs: its kind, whether it takes pods, and what each of its GPUs can take."""

    kind: NodeKind
    book: Book
    is_open: bool
    rooms: tuple[Room, ...]


def node_room(node: ClusterNode, book: Book) -> NodeRoom | None:
    """The room of a node; None for a node that shares no GPUs."""
    if book.node is None or not book.node.cards:
        return None
    is_open = not (book.node.closed or book.node.away)
    rooms = rooms_of(book, _request(1, 1)) if is_open else ()
    return NodeRoom(_kind(node, book), book, is_open, rooms)


def _kind(node: ClusterNode, book: Book) -> NodeKind:
    cards = book.node.cards if book.node else ()
    taints = (each for each in node.spec.taints or () if each.effect in ("NoSchedule", "NoExecute"))
    return NodeKind(
        model=" and ".join(sorted({card.model for card in cards if card.model})),
        unit=str(unit_of(view_of(node, ()))),
        mib=max(card.mib for card in cards),
        units=max(card.units for card in cards),
        mode=str(book.node.mode) if book.node else "",
        labels=tuple((key, node.labels[key]) for key in POOL_LABELS if key in node.labels),
        taints=tuple(sorted(str(each) for each in taints if not each.key.startswith(_OF_KUBERNETES))),
    )


def _request(units: int, gpus: int) -> PodRequest:
    """A pod that nobody has created, with one container and memory only."""
    demand = demand_of([ContainerDemand("", ContainerKind.MAIN, units * gpus)], str(gpus))
    assert isinstance(demand, Demand)  # noqa: S101 - the amounts are positive and even
    return PodRequest("", demand)


def fit_steps(rooms: Iterable[NodeRoom], units: int, gpus: int) -> Generator[None, None, GpuFitList]:
    """What fits for pods with ``units`` on each of ``gpus`` GPUs. Yields after each node."""
    smallest, asked = _request(1, gpus), _request(units, gpus)
    found: defaultdict[NodeKind, list[_Fit]] = defaultdict(list)
    for room in rooms:
        found[room.kind].append(_fit(room, smallest.demand, asked.demand))
        yield
    items = tuple(_item(kind, found[kind]) for kind in sorted(found))
    return GpuFitList(
        units=units,
        gpus=gpus,
        largest_free_units=max((each.largest_free_units for each in items), default=0),
        fitting_pods=sum(each.fitting_pods for each in items),
        items=items,
    )


class _Fit(NamedTuple):
    """What fits on one node."""

    is_open: bool
    largest: int
    pods: int


def _fit(room: NodeRoom, smallest: Demand, asked: Demand) -> _Fit:
    if unfit(room.book, smallest):
        return _Fit(room.is_open, 0, 0)
    units, gpus = asked.per_card.mem, asked.cards
    pods = 0 if unfit(room.book, asked) else fitting_pods(room.rooms, units, gpus)
    return _Fit(room.is_open, largest_request(room.rooms, gpus), pods)


def _item(kind: NodeKind, nodes: Sequence[_Fit]) -> GpuFit:
    return GpuFit(
        model=kind.model or None,
        unit=kind.unit or None,
        gpu_memory_mib=kind.mib or None,
        gpu_units=kind.units,
        mode=kind.mode or None,
        labels=dict(kind.labels),
        taints=kind.taints,
        nodes=len(nodes),
        open_nodes=sum(each.is_open for each in nodes),
        largest_free_units=max(each.largest for each in nodes),
        fitting_pods=sum(each.pods for each in nodes),
    )
