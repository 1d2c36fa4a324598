"""XID errors, as the driver's event sets have them.

A set is asked without waiting, again and again, on the same thread as everything else: events are
kept until they are asked for, and no second thread has to be stopped when the library is opened afresh.
"""

import ctypes
from typing import Any, Final

import pynvml
import structlog

from gpushare.adapters.nvml.library import ABSENT, Library, NvmlRefusal
from gpushare.model.hardware import Fault

log = structlog.get_logger()

_WAIT_MS: Final = 1
_AT_ONCE: Final = 64
"""So that a driver that never stops reporting does not keep the thread."""


class Events:
    """The event set of the library as it is open now."""

    def __init__(self) -> None:
        self._opened = 0
        self._set: Any = None
        self._uuids: dict[int | None, str] = {}

    def drain(self, library: Library) -> list[Fault] | None:
        """What was reported since the last time; None where the driver reports nothing at all.

        Raises Refusal where it cannot be asked this time.
        """
        if self._opened != library.opened:
            self._set = self._register(library)
            self._opened = library.opened
        if self._set is None:
            return None
        faults: list[Fault] = []
        while len(faults) < _AT_ONCE and (data := _next(library, self._set)) is not None:
            faults.append(Fault(self._uuids.get(_address(data.device)), int(data.eventData)))
        return faults

    def _register(self, library: Library) -> Any:
        """A set with the XID errors of all cards that report them, or None where none does."""
        events = library.maybe("nvmlEventSetCreate")
        if events is None:
            return None
        self._uuids = {}
        refusals: list[NvmlRefusal] = []
        for index in range(library.call("nvmlDeviceGetCount")):
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
        # Asked now: a card that has just fallen off the bus does not tell its UUID any more.
        uuid = library.call("nvmlDeviceGetUUID", handle)
        library.call("nvmlDeviceRegisterEvents", handle, pynvml.nvmlEventTypeXidCriticalError, events)
        self._uuids[_address(handle)] = uuid


def _next(library: Library, events: Any) -> Any:
    """The next event, or None where there is none."""
    try:
        if hasattr(pynvml.nvmlLib, "nvmlEventSetWait_v2"):
            return library.call("nvmlEventSetWait_v2", events, _WAIT_MS)
        return library.guard("nvmlEventSetWait", lambda: _wait_v1(events))
    except NvmlRefusal as refusal:
        if refusal.code == pynvml.NVML_ERROR_TIMEOUT:
            return None
        raise


def _wait_v1(events: Any) -> Any:
    """The first version of the function, of drivers before 450, which pynvml does not know any more.

    Its structure is the beginning of the second version's.
    """
    data = pynvml.c_nvmlEventData_t()
    code = pynvml.nvmlLib.nvmlEventSetWait(events, ctypes.byref(data), ctypes.c_uint(_WAIT_MS))
    if code != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(code)
    return data


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
