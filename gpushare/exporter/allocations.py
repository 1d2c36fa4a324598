"""Allocations of GPUs to containers.

Amounts come from the pod's limits. GPUs come from the node annotation (``gpushare.io/assigned``) first, then
from the pod's annotations, then from the device IDs that the kubelet chose: those may belong to another GPU
than the one that the node agent allocated. If the kubelet does not report devices, running containers have
what their pods' annotations state.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpushare.contract import CORE_PER_CARD, RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.exporter.snapshot import NodeSnapshot
from gpushare.model.cards import Card, share_mib
from gpushare.model.demand import ContainerDemand, ContainerKind
from gpushare.model.devices import ContainerDevices, gpu_of_unit, uuid_of_gpu
from gpushare.model.local_node import GpuPod, LocalPod
from gpushare.model.objects import Node
from gpushare.model.quantity import parse_small
from gpushare.model.readings import CardReading

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ContainerName:
    """A container by its names; all empty for processes outside pods."""

    namespace: str = ""
    pod: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class CardAllocation:
    """A container's allocation on one GPU. ``core`` is its fraction of compute, 0 if not divided."""

    container: ContainerName
    uuid: str
    allocated_bytes: int
    core: float = 0.0


def allocations(snapshot: NodeSnapshot) -> Iterator[CardAllocation]:
    """Yield the allocations of all containers on all GPUs; none while no GPU is read."""
    by_index = {str(card.index): card for card in snapshot.cards}
    by_name = {**by_index, **{card.uuid: card for card in snapshot.cards}}
    local_pods = {(each.namespace, each.name): each for each in snapshot.local_pods or ()}
    for devices in _allocated_devices(snapshot):
        local_pod = local_pods.get((devices.namespace, devices.pod))
        if local_pod and local_pod.finished:
            continue
        if devices.resource == RESOURCE_WHOLE_GPU:
            yield from _whole_cards(devices, by_name)
        elif devices.resource == RESOURCE_MEM and snapshot.node:
            yield from _shares(devices, local_pod.gpu_pod if local_pod else None, snapshot.node, by_name)


def _allocated_devices(snapshot: NodeSnapshot) -> Iterable[ContainerDevices]:
    """Return the devices from the kubelet; without it, the running containers without device IDs."""
    if snapshot.devices is not None:
        return snapshot.devices
    return (
        ContainerDevices(each.namespace, each.name, demand.name, RESOURCE_MEM, frozenset())
        for each in snapshot.local_pods or ()
        if each.gpu_pod and each.gpu_pod.demand
        for demand in each.gpu_pod.demand.containers
        if demand.mem and demand.name in each.gpu_pod.running
    )


def _whole_cards(devices: ContainerDevices, cards: Mapping[str, CardReading]) -> Iterator[CardAllocation]:
    for name in sorted({uuid_of_gpu(each) for each in devices.ids}):
        # The size of a GPU that shares the memory of its host is not known.
        if (card := cards.get(name)) and card.total_bytes is not None:
            yield CardAllocation(_container_name(devices), card.uuid, card.total_bytes)


def _shares(
    devices: ContainerDevices, gpu_pod: GpuPod | None, node: Node, cards: Mapping[str, CardReading]
) -> Iterator[CardAllocation]:
    units = _annotated_units(devices.container, gpu_pod, node) or _units_by_ids(devices.ids, node)
    demand = _demand(devices.container, gpu_pod)
    core = demand.core / len(units) / CORE_PER_CARD if demand and node.core_per_card and units else 0.0
    for card in node.cards:
        reading = cards.get(card.uuid or str(card.index))
        if reading and card.index in units:
            yield CardAllocation(
                _container_name(devices), reading.uuid, _bytes(card, units[card.index], reading), core
            )


def _annotated_units(container: str, gpu_pod: GpuPod | None, node: Node) -> dict[int, int]:
    """Return units by GPU index from the node's or else the pod's annotations; empty without either."""
    demand = _demand(container, gpu_pod)
    if gpu_pod is None or demand is None:
        return {}
    indices = sorted(node.assigned.get(gpu_pod.pod.uid) or {index for index, _ in gpu_pod.claim or ()})
    return {index: demand.mem // len(indices) for index in indices}


def _demand(container: str, gpu_pod: GpuPod | None) -> ContainerDemand | None:
    """Return the container's limits. Names are unique across containers and init containers."""
    listed = gpu_pod.demand.containers if gpu_pod and gpu_pod.demand else ()
    return next((each for each in listed if each.name == container and _counts(each, gpu_pod)), None)


def _counts(demand: ContainerDemand, gpu_pod: GpuPod | None) -> bool:
    """Return whether the container has its allocation now: plain init containers only while they run."""
    return demand.kind is not ContainerKind.INIT or bool(gpu_pod and demand.name in gpu_pod.running)


def _units_by_ids(ids: Iterable[str], node: Node) -> dict[int, int]:
    by_uuid = {card.uuid: card.index for card in node.cards}
    units: dict[int, int] = {}
    for name in map(gpu_of_unit, ids):
        index = by_uuid.get(name, parse_small(name))
        if index is not None:
            units[index] = units.get(index, 0) + 1
    return units


def _bytes(card: Card, units: int, reading: CardReading) -> int:
    """Return the bytes of the units; the size is the driver's if the node has none (Aliyun plugin)."""
    return share_mib(card.mib or (reading.total_bytes or 0) // _MIB, units, card.units) * _MIB


def _container_name(devices: ContainerDevices) -> ContainerName:
    return ContainerName(devices.namespace, devices.pod, devices.container)


def container_of(local_pod: LocalPod, container_id: str) -> ContainerName:
    """Return the names of a container by ID; without its own name until the API reports it."""
    return ContainerName(local_pod.namespace, local_pod.name, local_pod.containers.get(container_id, ""))
