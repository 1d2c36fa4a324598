"""Current readings of all GPUs: sensors, counters, processes.

Maps NVML functions to the fields of ``gpushare.model.readings``. The processes of a GPU belong in
``processes``, its properties in ``reading``.
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
from gpushare.adapters.nvml.reading import cuda_version, usable_mib
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
"""Fields that one function returns as a number: the function and its arguments after the handle."""


class Meter:
    """Reads all GPUs repeatedly; keeps the time of the last reading and the XID errors since the start."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._last_read_us = 0
        self._xids: dict[str, Counter[int]] = {}
        self._last_xid: dict[str, int] = {}

    def read(self, library: Library) -> Readings:
        """Read all GPUs. Raises NvmlRefusal only if the number of GPUs cannot be read."""
        now_us = time.time_ns() // 1000
        since_us = since(self._last_read_us, now_us)
        reported = self._take_xids(library)
        cards, unreadable = [], {}
        for index in range(library.call("nvmlDeviceGetCount")):
            try:
                card = _read_card(library, index, since_us)
            except NvmlRefusal as refusal:
                unreadable[index] = str(refusal)
            else:
                cards.append(self._with_xids(card) if reported else CardReading(**card))
        self._last_read_us = now_us
        driver = library.maybe("nvmlSystemGetDriverVersion")
        return Readings(tuple(cards), unreadable, driver, cuda_version(library))

    def _take_xids(self, library: Library) -> bool:
        """Count new XID errors; return whether the driver reports them at all."""
        try:
            reported = self._events.poll(library)
        except NvmlRefusal:
            reported = False
        for fault in self._events.take():
            if fault.xid is None:
                continue
            if fault.uuid is None:
                log.warning("xid_of_unknown_card", xid=fault.xid)
                continue
            self._xids.setdefault(fault.uuid, Counter())[fault.xid] += 1
            self._last_xid[fault.uuid] = fault.xid
        return reported

    def _with_xids(self, card: dict[str, Any]) -> CardReading:
        uuid = card["uuid"]
        xids = dict(self._xids.get(uuid, {}))
        return CardReading(**card, last_xid=self._last_xid.get(uuid, 0), xids=xids)


def _read_card(library: Library, index: int, since_us: int) -> dict[str, Any]:
    """Return the fields of ``CardReading``. Raises NvmlRefusal if identity or memory cannot be read."""
    handle = library.call("nvmlDeviceGetHandleByIndex", index)
    sensors = {name: _sensor(library, *call[:1], handle, *call[1:]) for name, call in _SENSORS.items()}
    pci = _sensor(library, "nvmlDeviceGetPciInfo", handle)
    return {
        "index": index,
        "uuid": library.call("nvmlDeviceGetUUID", handle),
        "model": library.call("nvmlDeviceGetName", handle),
        "pci": "" if pci is None else str(pci.busId),
        "memory_celsius": _memory_celsius(library, handle),
        "processes": _processes(library, handle, since_us),
        **_memory(library, handle),
        **_utilization(library, handle),
        **_remapped(library, handle),
        **sensors,
    }


def _sensor(library: Library, function: str, *args: Any) -> Any:
    """Read a sensor; None if that fails for any reason, so that the rest of the GPU is still read."""
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
    """Empty for a GPU that shares the memory of its host."""
    usable = usable_mib(library, handle)
    if usable is None:
        return {}
    memory = library.maybe("nvmlDeviceGetMemoryInfo", handle, pynvml.nvmlMemory_v2)
    reserved = None if memory is None else memory.reserved
    if memory is None:
        memory = library.call("nvmlDeviceGetMemoryInfo", handle)
    return {
        "total_bytes": usable * _MIB,
        "used_bytes": memory.used,
        "free_bytes": memory.free,
        "reserved_bytes": reserved,
    }


def _utilization(library: Library, handle: Any) -> dict[str, int | None]:
    rates = _sensor(library, "nvmlDeviceGetUtilizationRates", handle)
    encoder = _sensor(library, "nvmlDeviceGetEncoderUtilization", handle)
    decoder = _sensor(library, "nvmlDeviceGetDecoderUtilization", handle)
    return {
        "gpu_percent": None if rates is None else rates.gpu,
        "memory_percent": None if rates is None else rates.memory,
        "encoder_percent": None if encoder is None else encoder[0],
        "decoder_percent": None if decoder is None else decoder[0],
    }


def _remapped(library: Library, handle: Any) -> dict[str, int | bool | None]:
    rows = _sensor(library, "nvmlDeviceGetRemappedRows", handle)
    corrected, uncorrected, _, failed = rows or (None, None, None, None)
    return {
        "remapped_corrected": corrected,
        "remapped_uncorrected": uncorrected,
        "remap_failed": None if failed is None else bool(failed),
    }


def _memory_celsius(library: Library, handle: Any) -> int | None:
    """Read the field value; NVML has no function for it."""
    values = _sensor(library, "nvmlDeviceGetFieldValues", handle, [pynvml.NVML_FI_DEV_MEMORY_TEMP])
    reported = values is not None and values[0].nvmlReturn == pynvml.NVML_SUCCESS
    return int(values[0].value.uiVal) if reported else None
