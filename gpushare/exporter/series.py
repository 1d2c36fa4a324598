"""Conversion of a snapshot to series. Pure.

Unknown values have no series. What a metric of a GPU reads is in ``gpushare.monitoring.catalogue``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from gpushare.exporter.allocations import ContainerName
from gpushare.exporter.isolation_series import limits
from gpushare.exporter.labels import (
    container_labels,
    dcgm_card_labels,
    dcgm_container_labels,
    own_card_labels,
    own_container_labels,
)
from gpushare.exporter.snapshot import (
    CGROUPS,
    CPUS,
    ISOLATION,
    NODE,
    NVML,
    POD_RESOURCES,
    PODS,
    NodeSnapshot,
)
from gpushare.exporter.usage import MeasuredUsage, Use, node_usage, owners_of, summed
from gpushare.model.readings import CardReading
from gpushare.monitoring import catalogue as names
from gpushare.monitoring.catalogue import CardMetric
from gpushare.monitoring.families import MetricSeries, Point, build_info

_MAKE: Final = "nvidia"
_MIB: Final = 1024 * 1024


def series_of(
    snapshot: NodeSnapshot, *, each_process: bool = False, dcgm_devices: bool = True
) -> list[MetricSeries]:
    """Return all series of a snapshot; metrics without known values are omitted."""
    usage = node_usage(snapshot, each_process=each_process)
    found = [
        build_info(),
        *_driver(snapshot),
        *_cards(snapshot.cards, snapshot.node_name),
        *_containers(usage, snapshot.node_name, each_process=each_process),
        *limits(snapshot, usage),
        _remote(snapshot),
        *_sources(snapshot),
    ]
    return [each for each in found if each.points and (dcgm_devices or not names.is_of_dcgm(each.metric))]


def _driver(snapshot: NodeSnapshot) -> Iterator[MetricSeries]:
    readings = snapshot.readings
    if readings and readings.driver:
        yield MetricSeries(
            names.DRIVER_INFO, [((snapshot.node_name, readings.driver, readings.cuda or ""), 1)]
        )


# --- cards --------------------------------------------------------------------------------------


def _cards(cards: Sequence[CardReading], node: str) -> Iterator[MetricSeries]:
    for metric in names.CARDS:
        labels = dcgm_card_labels if names.is_of_dcgm(metric) else own_card_labels
        yield MetricSeries(
            metric, [point for card in cards for point in _known(metric, card, labels(node, card))]
        )


def _known(metric: CardMetric, card: CardReading, labels: tuple[str, ...]) -> Iterator[Point]:
    """The values that the driver reports."""
    for own, number in metric.read(card).items():
        if number is not None:
            yield (*labels, *own), number


# --- containers ---------------------------------------------------------------------------------


def _containers(usage: MeasuredUsage, node: str, *, each_process: bool) -> Iterator[MetricSeries]:
    dcgm = [
        (card, allocation, dcgm_container_labels(node, card, allocation.container))
        for card, allocation in usage.allocated
    ]
    own = [
        (allocation, own_container_labels(node, card, allocation.container))
        for card, allocation in usage.allocated
    ]
    yield MetricSeries(
        names.DCGM_CONTAINER_MEM_ALLOCATED, [(label, h.allocated_bytes / _MIB) for _, h, label in dcgm]
    )
    yield MetricSeries(names.DCGM_CONTAINER_CP_ALLOCATED, [(label, h.core) for _, h, label in dcgm])
    yield MetricSeries(names.CONTAINER_ALLOCATED, [(label, h.allocated_bytes) for h, label in own])
    yield MetricSeries(names.CONTAINER_CORE, [(label, h.core) for h, label in own])
    yield from _used(usage.uses, node, each_process=each_process)
    yield from _attached(usage)


def _used(uses: Sequence[Use], node: str, *, each_process: bool) -> Iterator[MetricSeries]:
    """Yield the DCGM series, by process if requested, and ours by container."""
    sm, used = names.DCGM_PROCESS_SM_UTIL, names.DCGM_PROCESS_MEM_USED
    if each_process:
        sm, used = (replace(each, labels=(*each.labels, names.PID_LABEL)) for each in (sm, used))
    labels = [
        (
            *dcgm_container_labels(node, use.card, use.container),
            *([str(use.pid or "")] if each_process else ()),
        )
        for use in uses
    ]
    reported = list(zip(labels, uses, strict=True))
    yield MetricSeries(sm, [(label, use.sm_percent) for label, use in reported if use.sm_percent is not None])
    yield MetricSeries(
        used, [(label, use.used_bytes / _MIB) for label, use in reported if use.used_bytes is not None]
    )
    percent = _summed(uses, node, lambda use: use.sm_percent)
    yield MetricSeries(names.CONTAINER_UTILIZATION, [(label, total / 100) for label, total in percent])
    yield MetricSeries(names.CONTAINER_USED, _summed(uses, node, lambda use: use.used_bytes))


def _summed(uses: Iterable[Use], node: str, read: Callable[[Use], float | None]) -> list[Point]:
    """Sum by container and GPU; containers with an unknown value of a process are omitted."""
    sums = summed(uses, lambda use: own_container_labels(node, use.card, use.container), read)
    return [(label, total) for label, total in sums.items() if total is not None]


def _remote(snapshot: NodeSnapshot) -> MetricSeries:
    """Whether the processes of a container on a GPU have no CPU beside it."""
    found: dict[tuple[str, ...], float] = {}
    cpus, containers, pods = snapshot.cpus, snapshot.containers_by_pid, snapshot.local_pods
    if cpus and containers is not None and pods is not None:
        owners = owners_of(containers, pods)
        for card in snapshot.cards:
            beside = cpus.beside.get(card.uuid)
            for process in card.processes or ():
                owner, own = owners.get(process.pid), cpus.by_pid.get(process.pid)
                if owner and owner.pod and beside and own:
                    label = own_container_labels(snapshot.node_name, card, owner)
                    found[label] = max(found.get(label, 0.0), float(own.isdisjoint(beside)))
    return MetricSeries(names.CONTAINER_REMOTE, list(found.items()))


def _attached(usage: MeasuredUsage) -> Iterator[MetricSeries]:
    """Yield cAdvisor's series of the GPUs attached to a container: values of the whole GPU."""
    for metric in names.ATTACHED:
        yield MetricSeries(
            metric,
            [
                point
                for card, allocation in usage.allocated
                for point in _known(metric, card, _attached_labels(card, allocation.container))
            ],
        )


def _attached_labels(card: CardReading, container: ContainerName) -> tuple[str, ...]:
    return *container_labels(container), _MAKE, card.model, card.uuid


# --- the exporter itself ------------------------------------------------------------------------


def _sources(snapshot: NodeSnapshot) -> Iterator[MetricSeries]:
    sources = {
        NVML: snapshot.readings,
        CGROUPS: snapshot.containers_by_pid,
        POD_RESOURCES: snapshot.devices,
        PODS: snapshot.local_pods,
        NODE: snapshot.node,
        ISOLATION: snapshot.isolation,
        CPUS: snapshot.cpus,
    }
    yield MetricSeries(
        names.SOURCE_UP, [((name,), float(value is not None)) for name, value in sources.items()]
    )
    yield MetricSeries(names.SOURCE_DURATION, [((name,), took) for name, took in snapshot.took_s.items()])
    yield MetricSeries(names.SOURCE_FAILURES, [((name,), count) for name, count in snapshot.failures.items()])
    if snapshot.at is not None:
        yield MetricSeries(names.SNAPSHOT_AT, [((), snapshot.at)])
    if snapshot.readings:
        yield MetricSeries(names.CARDS_UNREADABLE, [((), len(snapshot.readings.unreadable))])
    if snapshot.isolation:
        yield MetricSeries(names.REGIONS_UNREADABLE, [((), len(snapshot.isolation.unreadable))])
