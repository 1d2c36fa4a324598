"""The processes on a GPU and their utilization, from NVML.

NVML has one list for each kind of process (compute, graphics, MPS clients) in three versions; a process may
be in several lists. Utilization is a separate call that returns only processes that the driver's samples saw
active, and none while the samples lag: that a process was idle is certain only if the call returns another
one, or if the GPU was idle as a whole.
"""

import ctypes
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pynvml

from gpushare.adapters.nvml.library import ABSENT, Library, NvmlRefusal
from gpushare.model.readings import IDLE, Load, ProcessReading

_LISTS: Final = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)
_LOADS: Final = "nvmlDeviceGetProcessUtilization"
_UNKNOWN_BYTES: Final = 2**64 - 1
_SPARE: Final = 5
"""Spare entries for processes that start between the call for the number and the call for the list."""
_MOST: Final = 100
_SAMPLE_US: Final = 1_500_000
"""Drivers sample utilization at least once a second; their clock may differ from ours."""


class ProcessMeter:
    """Lists the processes of all GPUs repeatedly; keeps the time of the last reading."""

    def __init__(self) -> None:
        self._last_read_us = 0

    def read(self, library: Library) -> dict[str, tuple[ProcessReading, ...]]:
        """Return processes by UUID of each GPU that lists them. Raises NvmlRefusal if the driver fails."""
        now_us = time.time_ns() // 1000
        since_us = since(self._last_read_us, now_us)
        found = {}
        for index in range(library.call("nvmlDeviceGetCount")):
            with suppress(NvmlRefusal):
                handle = library.call("nvmlDeviceGetHandleByIndex", index)
                processes = read_processes(library, handle, since_us)
                if processes is not None:
                    found[library.call("nvmlDeviceGetUUID", handle)] = processes
        self._last_read_us = now_us
        return found


def since(last_read_us: int, now_us: int) -> int:
    """Return the start of the sampling window in µs since 1970; ``last_read_us`` is 0 before the first."""
    return min(last_read_us or now_us, now_us - _SAMPLE_US)


def read_processes(library: Library, handle: Any, since_us: int) -> tuple[ProcessReading, ...] | None:
    """Return all processes, ordered by PID; None if the GPU does not list them.

    ``since_us`` is the start of the utilization window, in microseconds since 1970. Raises NvmlRefusal.
    """
    lists = [found for name in _LISTS if (found := _listed(library, name, handle)) is not None]
    if not lists:
        return None
    loads = _loads(library, handle, since_us)
    sampled = bool(loads) or (loads == {} and _is_idle(library, handle))
    used: dict[int, int | None] = {}
    for pid, size in (each for found in lists for each in found):
        # A process of two kinds is listed twice, each time with its total memory.
        used[pid] = max((each for each in (used.get(pid), size) if each is not None), default=None)
    return tuple(
        ProcessReading(pid, size)
        if loads is None
        else ProcessReading(pid, size, loads.get(pid, IDLE), sampled=sampled)
        for pid, size in sorted(used.items())
    )


def _is_idle(library: Library, handle: Any) -> bool:
    rates = library.maybe("nvmlDeviceGetUtilizationRates", handle)
    return rates is not None and rates.gpu == 0


def _listed(library: Library, name: str, handle: Any) -> list[tuple[int, int | None]] | None:
    """Return PID and bytes of each process, from the newest version of the list that the driver has."""
    for version in ("_v3", "_v2"):
        found = library.maybe(f"{name}{version}", handle) if hasattr(pynvml, f"{name}{version}") else None
        if found is not None:
            return [(each.pid, each.usedGpuMemory) for each in found]
    try:
        return library.guard(name, lambda: list(_first_version(name, handle)))
    except NvmlRefusal as refusal:
        if refusal.code in ABSENT:
            return None
        raise


class _Process(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong))


def _first_version(name: str, handle: Any) -> Iterator[tuple[int, int | None]]:
    """Yield the list of drivers before 455, which pynvml no longer supports."""
    function = getattr(pynvml.nvmlLib, name, None)
    if function is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    count = ctypes.c_uint(0)
    code = function(handle, ctypes.byref(count), None)
    if code == pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
        count.value += _SPARE
        buffer = (_Process * count.value)()
        code = function(handle, ctypes.byref(count), buffer)
        if code == pynvml.NVML_SUCCESS:
            for each in buffer[: count.value]:
                yield each.pid, None if each.used == _UNKNOWN_BYTES else each.used
    if code != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(code)


def _loads(library: Library, handle: Any, since_us: int) -> dict[int, Load] | None:
    """Return the mean utilization since then by PID; None if the GPU does not report it."""
    try:
        samples = library.call(_LOADS, handle, since_us)
    except NvmlRefusal as refusal:
        if refusal.code == pynvml.NVML_ERROR_NOT_FOUND:
            return {}
        if refusal.code in ABSENT:
            return None
        raise
    by_pid: dict[int, list[Load]] = {}
    for sample in samples:
        load = Load(sample.smUtil, sample.memUtil)
        # Some drivers return more entries than they filled.
        if sample.pid and sample.timeStamp > since_us and max(load.sm, load.memory) <= _MOST:
            by_pid.setdefault(sample.pid, []).append(load)
    return {pid: _mean(found) for pid, found in by_pid.items()}


def _mean(loads: list[Load]) -> Load:
    return Load(
        round(sum(each.sm for each in loads) / len(loads)),
        round(sum(each.memory for each in loads) / len(loads)),
    )
