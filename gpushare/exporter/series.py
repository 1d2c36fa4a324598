"""Conversion of a snapshot to series: fields, metrics and units. Pure.

Unknown values have no series.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from gpushare.exporter.isolation_series import limits
from gpushare.exporter.labels import (
    container_labels,
    dcgm_card_labels,
    dcgm_container_labels,
    own_card_labels,
    own_container_labels,
)
from gpushare.exporter.snapshot import CGROUPS, ISOLATION, NODE, NVML, POD_RESOURCES, PODS, Snapshot
from gpushare.exporter.usage import NodeUsage, Use, node_usage
from gpushare.model.readings import CardReading
from gpushare.monitoring import catalogue as names
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.families import Point, Series, build_info

_MAKE: Final = "nvidia"

_Convert = Callable[[float], float]


def _same(value: float) -> float:
    return value


def _hundredth(value: float) -> float:
    return value / 100


def _thousandth(value: float) -> float:
    return value / 1000


def _kilo(value: float) -> float:
    return value * 1000


def _mega(value: float) -> float:
    return value * 1_000_000


def _mib(value: float) -> float:
    return value / (1024 * 1024)


_DEVICE: Final[Sequence[tuple[Metric, str, _Convert]]] = (
    (names.DCGM_GPU_UTIL, "gpu_percent", _same),
    (names.DCGM_MEM_COPY_UTIL, "memory_percent", _same),
    (names.DCGM_ENC_UTIL, "encoder_percent", _same),
    (names.DCGM_DEC_UTIL, "decoder_percent", _same),
    (names.DCGM_FB_USED, "used_bytes", _mib),
    (names.DCGM_FB_FREE, "free_bytes", _mib),
    (names.DCGM_FB_RESERVED, "reserved_bytes", _mib),
    (names.DCGM_GPU_TEMP, "celsius", _same),
    (names.DCGM_MEMORY_TEMP, "memory_celsius", _same),
    (names.DCGM_POWER_USAGE, "power_mw", _thousandth),
    (names.DCGM_POWER_LIMIT, "power_limit_mw", _thousandth),
    (names.DCGM_ENERGY, "energy_mj", _same),
    (names.DCGM_SM_CLOCK, "sm_mhz", _same),
    (names.DCGM_MEM_CLOCK, "memory_mhz", _same),
    (names.DCGM_PCIE_REPLAYS, "pcie_replays", _same),
    (names.DCGM_PCIE_TX, "pcie_tx_kb", _same),
    (names.DCGM_PCIE_RX, "pcie_rx_kb", _same),
    (names.DCGM_XID_ERRORS, "last_xid", _same),
    (names.DCGM_ECC_SBE_VOL, "ecc_corrected", _same),
    (names.DCGM_ECC_DBE_VOL, "ecc_uncorrected", _same),
    (names.DCGM_ECC_SBE_AGG, "ecc_corrected_ever", _same),
    (names.DCGM_ECC_DBE_AGG, "ecc_uncorrected_ever", _same),
    (names.DCGM_ROWS_CORRECTED, "remapped_corrected", _same),
    (names.DCGM_ROWS_UNCORRECTED, "remapped_uncorrected", _same),
    (names.DCGM_ROW_REMAP_FAILURE, "remap_failed", _same),
)
_OWN: Final[Sequence[tuple[Metric, str, _Convert]]] = (
    (names.CARD_MEMORY, "total_bytes", _same),
    (names.CARD_USED, "used_bytes", _same),
    (names.CARD_UTILIZATION, "gpu_percent", _hundredth),
    (names.CARD_MEMORY_UTILIZATION, "memory_percent", _hundredth),
    (names.CARD_ENCODER, "encoder_percent", _hundredth),
    (names.CARD_DECODER, "decoder_percent", _hundredth),
    (names.CARD_TEMPERATURE, "celsius", _same),
    (names.CARD_MEMORY_TEMPERATURE, "memory_celsius", _same),
    (names.CARD_POWER, "power_mw", _thousandth),
    (names.CARD_POWER_LIMIT, "power_limit_mw", _thousandth),
    (names.CARD_ENERGY, "energy_mj", _thousandth),
    (names.CARD_SM_CLOCK, "sm_mhz", _mega),
    (names.CARD_MEMORY_CLOCK, "memory_mhz", _mega),
    (names.CARD_PCIE_SENT, "pcie_tx_kb", _kilo),
    (names.CARD_PCIE_RECEIVED, "pcie_rx_kb", _kilo),
    (names.CARD_PCIE_REPLAYS, "pcie_replays", _same),
)
_KINDS: Final = (
    (names.CARD_ECC, (("corrected", "ecc_corrected"), ("uncorrected", "ecc_uncorrected"))),
    (names.CARD_ROWS, (("corrected", "remapped_corrected"), ("uncorrected", "remapped_uncorrected"))),
)


def series_of(snapshot: Snapshot, *, each_process: bool = False, dcgm_devices: bool = True) -> list[Series]:
    """Return all series of a snapshot; metrics without known values are omitted."""
    cards = snapshot.readings.cards if snapshot.readings else ()
    usage = node_usage(snapshot, each_process=each_process)
    found = [
        build_info(),
        *_driver(snapshot),
        *_cards(cards, snapshot.node_name),
        *_containers(usage, snapshot.node_name, each_process=each_process),
        *limits(snapshot, usage),
        *_sources(snapshot),
    ]
    return [each for each in found if each.points and (dcgm_devices or not names.is_of_dcgm(each.metric))]


def _driver(snapshot: Snapshot) -> Iterator[Series]:
    readings = snapshot.readings
    if readings and readings.driver:
        yield Series(names.DRIVER_INFO, [((snapshot.node_name, readings.driver, readings.cuda or ""), 1)])


# --- cards --------------------------------------------------------------------------------------


def _cards(cards: Sequence[CardReading], node: str) -> Iterator[Series]:
    for table, labels in ((_DEVICE, dcgm_card_labels), (_OWN, own_card_labels)):
        for metric, field, convert in table:
            reported = ((labels(node, card), getattr(card, field)) for card in cards)
            yield Series(
                metric, [(values, convert(reported)) for values, reported in reported if reported is not None]
            )
    yield Series(
        names.CARD_INFO, [((*own_card_labels(node, card), card.model, card.pci), 1) for card in cards]
    )
    for metric, kinds in _KINDS:
        yield Series(metric, list(_by_kind(cards, node, kinds)))
    yield Series(
        names.CARD_XIDS,
        [
            ((*own_card_labels(node, card), str(xid)), count)
            for card in cards
            for xid, count in sorted((card.xids or {}).items())
        ],
    )


def _by_kind(cards: Iterable[CardReading], node: str, kinds: Iterable[tuple[str, str]]) -> Iterator[Point]:
    for card in cards:
        for kind, field in kinds:
            count = getattr(card, field)
            if count is not None:
                yield (*own_card_labels(node, card), kind), count


# --- containers ---------------------------------------------------------------------------------


def _containers(usage: NodeUsage, node: str, *, each_process: bool) -> Iterator[Series]:
    dcgm = [
        (card, allocation, dcgm_container_labels(node, card, allocation.container))
        for card, allocation in usage.allocated
    ]
    own = [
        (allocation, own_container_labels(node, card, allocation.container))
        for card, allocation in usage.allocated
    ]
    yield Series(
        names.DCGM_CONTAINER_MEM_ALLOCATED, [(label, _mib(h.allocated_bytes)) for _, h, label in dcgm]
    )
    yield Series(names.DCGM_CONTAINER_CP_ALLOCATED, [(label, h.core) for _, h, label in dcgm])
    yield Series(names.CONTAINER_ALLOCATED, [(label, h.allocated_bytes) for h, label in own])
    yield Series(names.CONTAINER_CORE, [(label, h.core) for h, label in own])
    yield from _used(usage.uses, node, each_process=each_process)
    yield from _attached(usage)


def _used(uses: Sequence[Use], node: str, *, each_process: bool) -> Iterator[Series]:
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
    yield Series(sm, [(label, use.sm_percent) for label, use in reported if use.sm_percent is not None])
    yield Series(
        used, [(label, _mib(use.used_bytes)) for label, use in reported if use.used_bytes is not None]
    )
    yield Series(names.CONTAINER_UTILIZATION, _summed(uses, node, "sm_percent", _hundredth))
    yield Series(names.CONTAINER_USED, _summed(uses, node, "used_bytes", _same))


def _summed(uses: Iterable[Use], node: str, field: str, convert: _Convert) -> list[Point]:
    """Sum by container and GPU; containers with an unknown value of a process are omitted."""
    sums: dict[tuple[str, ...], float | None] = {}
    for use in uses:
        label = own_container_labels(node, use.card, use.container)
        before, value = sums.get(label, 0), getattr(use, field)
        sums[label] = None if before is None or value is None else before + value
    return [(label, convert(total)) for label, total in sums.items() if total is not None]


def _attached(usage: NodeUsage) -> Iterator[Series]:
    """Yield cAdvisor's series of the GPUs attached to a container: values of the whole GPU."""
    for metric, field in (
        (names.CADVISOR_TOTAL, "total_bytes"),
        (names.CADVISOR_USED, "used_bytes"),
        (names.CADVISOR_DUTY_CYCLE, "gpu_percent"),
    ):
        points = [
            ((*container_labels(allocation.container), _MAKE, card.model, card.uuid), value)
            for card, allocation in usage.allocated
            if (value := getattr(card, field)) is not None
        ]
        yield Series(metric, points)


# --- the exporter itself ------------------------------------------------------------------------


def _sources(snapshot: Snapshot) -> Iterator[Series]:
    sources = {
        NVML: snapshot.readings,
        CGROUPS: snapshot.containers_by_pid,
        POD_RESOURCES: snapshot.devices,
        PODS: snapshot.node_pods,
        NODE: snapshot.node,
        ISOLATION: snapshot.isolation,
    }
    yield Series(names.SOURCE_UP, [((name,), float(value is not None)) for name, value in sources.items()])
    yield Series(names.SOURCE_DURATION, [((name,), took) for name, took in snapshot.took_s.items()])
    yield Series(names.SOURCE_FAILURES, [((name,), count) for name, count in snapshot.failures.items()])
    if snapshot.at is not None:
        yield Series(names.SNAPSHOT_AT, [((), snapshot.at)])
    if snapshot.readings:
        yield Series(names.CARDS_UNREADABLE, [((), len(snapshot.readings.unreadable))])
    if snapshot.isolation:
        yield Series(names.REGIONS_UNREADABLE, [((), len(snapshot.isolation.unreadable))])
