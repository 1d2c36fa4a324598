"""What the driver answers about the health of GPUs. What that means is decided in ``deviceplugin.core``."""

from collections.abc import Iterable
from typing import Any, Final

import pynvml

from gpushare.adapters.nvml.library import ABSENT, Library, NvmlRefusal
from gpushare.model.hardware import GpuFacts

_WITHOUT: Final = ABSENT | {pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NO_PERMISSION}
"""Codes for an answer that this GPU, driver or virtual machine does not have.

Drivers before 565 do not know the number of the recovery action. Any other code is a failure: without the
answer a GPU that needs a reset would take pods again.
"""

_UNCORRECTED: Final = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)


def read_facts(library: Library, uuids: Iterable[str]) -> dict[str, GpuFacts]:
    """Ask the driver about each of these GPUs."""
    return {uuid: _read(library, uuid) for uuid in uuids}


def _read(library: Library, uuid: str) -> GpuFacts:
    try:
        handle = library.call("nvmlDeviceGetHandleByUUID", uuid)
        library.maybe("nvmlDeviceGetMemoryInfo", handle)
        library.maybe("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU)
        return GpuFacts(
            recovery=_recovery(library, handle),
            uncorrected_ecc=_optional(library, "nvmlDeviceGetTotalEccErrors", handle, *_UNCORRECTED),
            remap_failed=_remap_failed(library, handle),
        )
    except NvmlRefusal as refusal:
        return GpuFacts(failure=str(refusal))


def _optional(library: Library, function: str, *args: Any) -> Any:
    """Call the function; None if there is no such answer. Raises NvmlRefusal if it fails otherwise."""
    try:
        return library.call(function, *args)
    except NvmlRefusal as refusal:
        if refusal.code in _WITHOUT:
            return None
        raise


def _recovery(library: Library, handle: Any) -> int | None:
    function, field = "nvmlDeviceGetFieldValues", pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    values = _optional(library, function, handle, [field])
    # The function succeeds although the field fails; its value is undefined then.
    code = pynvml.NVML_ERROR_NOT_SUPPORTED if values is None else int(values[0].nvmlReturn)
    if code in _WITHOUT:
        return None
    if code != pynvml.NVML_SUCCESS:
        raise NvmlRefusal(f"{function} of field {field}", code, str(pynvml.NVMLError(code)))
    return int(values[0].value.uiVal)


def _remap_failed(library: Library, handle: Any) -> bool | None:
    rows = _optional(library, "nvmlDeviceGetRemappedRows", handle)
    return None if rows is None else bool(rows[3])
