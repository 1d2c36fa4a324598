"""The NVML library, open or to be opened, and its refusals in our own terms.

What belongs here: opening, calling, and what an error code means for going on. What does not: which
functions are called and why (``reading``, ``links``, ``events``). Everything runs on the worker's thread.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import pynvml

from gpushare.errors import GpuError

T = TypeVar("T")

ABSENT: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
"""Codes that say: this card or this driver does not tell."""

_STALE: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_UNKNOWN,
    }
)
"""Codes after which only a library that is opened afresh may see cards come back."""

_WAY_OUT: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 was not found: install the NVIDIA driver on this machine, or run this container "
        "with the NVIDIA runtime and NVIDIA_DRIVER_CAPABILITIES=utility"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA kernel driver is not loaded: see whether nvidia-smi works on this machine"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVML library and the loaded kernel driver are of different versions, as after an upgrade: "
        "load the driver again or reboot, then restart this process"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "no permission to use the NVIDIA driver: this process needs /dev/nvidiactl and the cards' devices"
    ),
}


class NvmlRefusal(GpuError):
    """A function of NVML that answered with an error. ``code`` is an NVML_ERROR_… number."""

    def __init__(self, function: str, code: int, text: str) -> None:
        super().__init__(f"{function}: {text} ({code})")
        self.code = code


class Library:
    """NVML as this process has it. ``calling`` is entered around each call, with the function's name.

    ``opened`` counts how often it was opened: handles and event sets live from one opening to the next.
    """

    def __init__(self, calling: Callable[[str], AbstractContextManager[None]], reopen_s: float) -> None:
        self._calling = calling
        self._reopen_s = reopen_s
        self._opened_at: float | None = None
        self._stale = False
        self.opened = 0

    def ensure(self) -> None:
        """Open the library where it is not; open it afresh, not too often, after a card was lost.

        Raises GpuError with the way out where it cannot be opened.
        """
        if self._stale and self._opened_at is not None:
            if time.monotonic() - self._opened_at < self._reopen_s:
                return
            self.close()
        if self._opened_at is None:
            self._open()

    def call(self, function: str, *args: Any) -> Any:
        """What the function of ``pynvml`` returns. Raises Refusal."""
        return self.guard(function, lambda: getattr(pynvml, function)(*args))

    def maybe(self, function: str, *args: Any) -> Any:
        """The same, or None where the card or the driver does not tell."""
        try:
            return self.call(function, *args)
        except NvmlRefusal as refusal:
            if refusal.code in ABSENT:
                return None
            raise

    def guard(self, function: str, body: Callable[[], T]) -> T:
        """Run ``body``, which is one call of that function. Raises Refusal."""
        try:
            with self._calling(function):
                return body()
        except pynvml.NVMLError as error:
            self._stale = self._stale or error.value in _STALE
            raise NvmlRefusal(function, error.value, str(error)) from error
        except UnicodeDecodeError as error:
            raise NvmlRefusal(function, pynvml.NVML_ERROR_UNKNOWN, f"answered {error.object!r}") from error

    def close(self) -> None:
        """Shut NVML down; an error of that is of no use to anybody."""
        if self._opened_at is None:
            return
        self._opened_at = None
        try:
            self.call("nvmlShutdown")
        except NvmlRefusal:
            return

    def _open(self) -> None:
        try:
            self.call("nvmlInit")
        except NvmlRefusal as refusal:
            raise GpuError(_WAY_OUT.get(refusal.code, f"NVML cannot be opened: {refusal}")) from refusal
        self._opened_at = time.monotonic()
        self._stale = False
        self.opened += 1
