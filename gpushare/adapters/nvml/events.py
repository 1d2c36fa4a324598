"""XID errors and changes of recovery actions from the driver's event sets.

A set is polled without waiting, on the same thread as all other calls: the driver keeps events until they
are read, and no second thread has to stop when the library is reopened.
"""

import ctypes
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import pynvml
import structlog

from gpushare.adapters.nvml.library import ABSENT, Library, NvmlRefusal
from gpushare.model.hardware import Fault

log = structlog.get_logger()

_WAIT_MS: Final = 1
_AT_ONCE: Final = 64
"""Limit per poll, so that a driver that reports endlessly does not block the thread."""


class Events:
    """The event set of the currently open library, and the errors read from it that have not been taken.

    The driver reports an error once. Errors are kept here because the caller of ``poll`` may have given up
    when the poll returns, after a call that took longer than its timeout.
    """

    def __init__(self) -> None:
        self._opened = 0
        self._set: Any = None
        self._uuids: dict[int | None, str] = {}
        self._untaken: deque[Fault] = deque()

    def take(self) -> Iterator[Fault]:
        """Yield the errors that were read, oldest first, each once. It may be called on any thread."""
        while self._untaken:
            yield self._untaken.popleft()

    def poll(self, library: Library) -> bool:
        """Read new errors; return whether the driver supports XID events.

        Raises NvmlRefusal if the poll fails.
        """
        if self._opened != library.opened:
            self._set = self._register(library)
            self._opened = library.opened
        if self._set is None:
            return False
        for _ in range(_AT_ONCE):
            if (data := _next(library, self._set)) is None:
                break
            self._untaken.append(_fault(self._uuids.get(_address(data.device)), data))
        return True

    def _register(self, library: Library) -> Any:
        """Return an event set for all GPUs that report XID errors; None if no GPU does.

        Raises NvmlRefusal while there is no GPU: those that appear later may report errors.
        """
        count = library.call("nvmlDeviceGetCount")
        if not count:
            raise NvmlRefusal("nvmlDeviceGetCount", pynvml.NVML_ERROR_NOT_FOUND, "there is no GPU")
        events = library.maybe("nvmlEventSetCreate")
        if events is None:
            return None
        self._uuids = {}
        refusals: list[NvmlRefusal] = []
        for index in range(count):
            try:
                self._register_card(library, events, index)
            except NvmlRefusal as refusal:
                log.warning("xids_not_reported", card=index, reason=str(refusal))
                refusals.append(refusal)
        if self._uuids:
            return events
        library.maybe("nvmlEventSetFree", events)
        if transient := [refusal for refusal in refusals if refusal.code not in ABSENT]:
            raise transient[0]
        return None

    def _register_card(self, library: Library, events: Any, index: int) -> None:
        handle = library.call("nvmlDeviceGetHandleByIndex", index)
        # Read now: a GPU that has fallen off the bus no longer returns its UUID.
        uuid = library.call("nvmlDeviceGetUUID", handle)
        types = pynvml.nvmlEventTypeXidCriticalError | _recovery_type(library, handle)
        library.call("nvmlDeviceRegisterEvents", handle, types, events)
        self._uuids[_address(handle)] = uuid


def _recovery_type(library: Library, handle: Any) -> int:
    """The type of events about recovery actions; 0 for a GPU that has none, as before driver 565."""
    supported = library.maybe("nvmlDeviceGetSupportedEventTypes", handle) or 0
    return int(supported) & int(pynvml.nvmlEventTypeGpuRecoveryAction)


def _fault(uuid: str | None, data: Any) -> Fault:
    # Only an XID event has data.
    is_recovery = data.eventType == pynvml.nvmlEventTypeGpuRecoveryAction
    return Fault(uuid, None if is_recovery else int(data.eventData))


def _next(library: Library, events: Any) -> Any:
    """Return the next event, or None."""
    try:
        if hasattr(pynvml.nvmlLib, "nvmlEventSetWait_v2"):
            return library.call("nvmlEventSetWait_v2", events, _WAIT_MS)
        return library.guard("nvmlEventSetWait", lambda: _wait_v1(events))
    except NvmlRefusal as refusal:
        if refusal.code == pynvml.NVML_ERROR_TIMEOUT:
            return None
        raise


def _wait_v1(events: Any) -> Any:
    """Call the first version of the function (drivers before 450), which pynvml no longer has.

    Its structure is a prefix of the second version's.
    """
    data = pynvml.c_nvmlEventData_t()
    code = pynvml.nvmlLib.nvmlEventSetWait(events, ctypes.byref(data), ctypes.c_uint(_WAIT_MS))
    if code != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(code)
    return data


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
