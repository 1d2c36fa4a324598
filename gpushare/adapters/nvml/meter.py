"""What all cards do now: sensors, counters, processes.

What belongs here: which function tells which field of ``gpushare.model.readings``. What does not: the
processes of a card (``processes``), what a card is (``reading``), and what becomes of the numbers.
"""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pynvml
import structlog

from gpushare.adapters.nvml.events import Events
from gpushare.adapters.nvml.library import Library, NvmlRefusal
from gpushare.adapters.nvml.processes import read_processes, since
from gpushare.adapters.nvml.reading import usable_mib
from gpushare.model.readings import CardReading, Readings

log = structlog.get_logger()

_MIB: Final = 1024 * 1024

_SENSORS: Final[Mapping[str, tuple[Any, ...]]] = {
    "minor": ("nvmlDeviceGetMinorNumber",),
    "celsius": ("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
    "power_mw": ("nvmlDeviceGetPowerUsage",),
    "power_limit_mw": ("nvmlDeviceGetEnforcedPowerLimit",),
    "energy_mj": ("nvmlDeviceGetTotalEnergyConsumption",),
    "sm_mhz": ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
    "memory_mhz": ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM),
    "pcie_tx_kb": ("nvmlDeviceGetPcieThroughput", pynvml.NVML_PCIE_UTIL_TX_BYTES),
    "pcie_rx_kb": ("nvmlDeviceGetPcieThroughput", pynvml.NVML_PCIE_UTIL_RX_BYTES),
    "pcie_replays": ("nvmlDeviceGetPcieReplayCounter",),
    "ecc_corrected": (
        "nvmlDeviceGetTotalEccErrors",
        pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    ),
    "ecc_uncorrected": (
        "nvmlDeviceGetTotalEccErrors",
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    ),
    "ecc_corrected_ever": (
        "nvmlDeviceGetTotalEccErrors",
        pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        pynvml.NVML_AGGREGATE_ECC,
    ),
    "ecc_uncorrected_ever": (
        "nvmlDeviceGetTotalEccErrors",
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_AGGREGATE_ECC,
    ),
}
"""Fields that one function tells as a number: the function and its arguments after the card."""


class Meter:
    """Reads again and again; remembers when it looked last, and the XID errors since it began."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._looked_us = 0
        self._xids: dict[str, Counter[int]] = {}
        self._last_xid: dict[str, int] = {}

    def read(self, library: Library) -> Readings:
        """All cards. Raises Refusal only where the driver cannot even be asked for their number."""
        now_us = time.time_ns() // 1000
        since_us = since(self._looked_us, now_us)
        told = self._take_xids(library)
        cards, unreadable = [], {}
        for index in range(library.call("nvmlDeviceGetCount")):
            try:
                card = _read_card(library, index, since_us)
            except NvmlRefusal as refusal:
                unreadable[index] = str(refusal)
            else:
                cards.append(self._with_xids(card) if told else CardReading(**card))
        self._looked_us = now_us
        return Readings(tuple(cards), unreadable)

    def _take_xids(self, library: Library) -> bool:
        """Count what was reported; returns whether anything is reported at all."""
        try:
            faults = self._events.drain(library)
        except NvmlRefusal:
            return False
        for fault in faults or ():
            if fault.uuid is None:
                log.warning("xid_of_unknown_card", xid=fault.xid)
                continue
            self._xids.setdefault(fault.uuid, Counter())[fault.xid] += 1
            self._last_xid[fault.uuid] = fault.xid
        return faults is not None

    def _with_xids(self, card: dict[str, Any]) -> CardReading:
        uuid = card["uuid"]
        xids = dict(self._xids.get(uuid, {}))
        return CardReading(**card, last_xid=self._last_xid.get(uuid, 0), xids=xids)


def _read_card(library: Library, index: int, since_us: int) -> dict[str, Any]:
    """The fields of ``CardReading``. Raises Refusal where the card does not say who it is and how large."""
    handle = library.call("nvmlDeviceGetHandleByIndex", index)
    sensors = {name: _told(library, *call[:1], handle, *call[1:]) for name, call in _SENSORS.items()}
    pci = _told(library, "nvmlDeviceGetPciInfo", handle)
    return {
        "index": index,
        "uuid": library.call("nvmlDeviceGetUUID", handle),
        "model": library.call("nvmlDeviceGetName", handle),
        "pci": "" if pci is None else str(pci.busId),
        "memory_celsius": _memory_celsius(library, handle),
        "processes": _processes(library, handle, since_us),
        **_memory(library, handle),
        **_utilisation(library, handle),
        **_remapped(library, handle),
        **sensors,
    }


def _told(library: Library, function: str, *args: Any) -> Any:
    """What a sensor tells; None where it does not, for whatever reason: the rest of the card is read on."""
    try:
        return library.maybe(function, *args)
    except NvmlRefusal:
        return None


def _processes(library: Library, handle: Any, since_us: int) -> Any:
    try:
        return read_processes(library, handle, since_us)
    except NvmlRefusal:
        return None


def _memory(library: Library, handle: Any) -> dict[str, int | None]:
    memory = library.maybe("nvmlDeviceGetMemoryInfo", handle, pynvml.nvmlMemory_v2)
    reserved = None if memory is None else memory.reserved
    if memory is None:
        memory = library.call("nvmlDeviceGetMemoryInfo", handle)
    return {
        "total_bytes": usable_mib(library, handle) * _MIB,
        "used_bytes": memory.used,
        "free_bytes": memory.free,
        "reserved_bytes": reserved,
    }


def _utilisation(library: Library, handle: Any) -> dict[str, int | None]:
    rates = _told(library, "nvmlDeviceGetUtilizationRates", handle)
    encoder = _told(library, "nvmlDeviceGetEncoderUtilization", handle)
    decoder = _told(library, "nvmlDeviceGetDecoderUtilization", handle)
    return {
        "gpu_percent": None if rates is None else rates.gpu,
        "memory_percent": None if rates is None else rates.memory,
        "encoder_percent": None if encoder is None else encoder[0],
        "decoder_percent": None if decoder is None else decoder[0],
    }


def _remapped(library: Library, handle: Any) -> dict[str, int | bool | None]:
    rows = _told(library, "nvmlDeviceGetRemappedRows", handle)
    corrected, uncorrected, _, failed = rows or (None, None, None, None)
    return {
        "remapped_corrected": corrected,
        "remapped_uncorrected": uncorrected,
        "remap_failed": None if failed is None else bool(failed),
    }


def _memory_celsius(library: Library, handle: Any) -> int | None:
    """A field without a function of its own."""
    values = _told(library, "nvmlDeviceGetFieldValues", handle, [pynvml.NVML_FI_DEV_MEMORY_TEMP])
    told = values is not None and values[0].nvmlReturn == pynvml.NVML_SUCCESS
    return int(values[0].value.uiVal) if told else None
