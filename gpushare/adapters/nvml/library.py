"""The NVML library: opening, calling, and the meaning of its error codes.

The choice of functions belongs in ``reading``, ``links`` and ``events``. All calls run on the
worker's thread.
"""

import ctypes
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeVar

import pynvml

from gpushare.errors import DriverAbsentError, GpuError

T = TypeVar("T")

ABSENT: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
"""Codes for a value that this GPU or this driver does not provide."""

_NO_DRIVER: Final = frozenset(
    {pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}
)
"""Codes that concern the driver, not one GPU or function."""

_STALE: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_UNKNOWN,
    }
)
"""Codes after which GPUs may only come back in a reopened library."""

_REMEDIES: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 was not found: install the NVIDIA driver on this machine, or run this container "
        "with the NVIDIA runtime and NVIDIA_DRIVER_CAPABILITIES=utility"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA kernel driver is not loaded: check that nvidia-smi works on this machine"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVML library and the loaded kernel driver have different versions, as after an upgrade: "
        "reload the driver or reboot, then restart this process"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "no permission to use the NVIDIA driver: this process needs /dev/nvidiactl and the GPU devices"
    ),
}

_SONAME: Final = "libnvidia-ml.so.1"
_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)
"""Those in which NVIDIA's device plugin searches."""


class NvmlRefusal(GpuError):
    """An NVML function returned an error. ``code`` is an NVML_ERROR_… number."""

    def __init__(self, function: str, code: int, text: str) -> None:
        super().__init__(f"{function}: {text} ({code})")
        self.code = code


class Library:
    """NVML in this process. ``calling`` is entered around each call, with the function's name.

    ``driver_root`` is the folder below which the library is, None for the library path of the process: that
    of the driver container of the GPU Operator, for example, is ``/run/nvidia/driver``.
    ``opened`` counts the openings: handles and event sets are valid until the next one. ``mismatched`` is
    whether the last call failed because library and kernel driver have different versions.
    """

    def __init__(
        self,
        calling: Callable[[str], AbstractContextManager[None]],
        reopen_s: float,
        driver_root: Path | None = None,
    ) -> None:
        self._calling = calling
        self._reopen_s = reopen_s
        self._driver_root = driver_root
        self._opened_at: float | None = None
        self._stale = False
        self.opened = 0
        self.mismatched = False

    def ensure(self) -> None:
        """Open the library if needed; reopen it, at most every ``reopen_s``, after a GPU was lost.

        Raises GpuError with a remedy if it cannot be opened.
        """
        if self._stale and self._opened_at is not None:
            if time.monotonic() - self._opened_at < self._reopen_s:
                return
            self.close()
        if self._opened_at is None:
            self._open()

    def call(self, function: str, *args: Any) -> Any:
        """Call the function of ``pynvml``. Raises NvmlRefusal, or DriverAbsentError."""
        return self.guard(function, lambda: getattr(pynvml, function)(*args))

    def maybe(self, function: str, *args: Any) -> Any:
        """Like ``call``; None if the GPU or the driver does not support the function."""
        try:
            return self.call(function, *args)
        except NvmlRefusal as refusal:
            if refusal.code in ABSENT:
                return None
            raise

    def guard(self, function: str, body: Callable[[], T]) -> T:
        """Run ``body``, a single call of that function. Raises NvmlRefusal.

        Without a usable driver it raises DriverAbsentError, which no caller takes for the failure of one GPU.
        """
        try:
            with self._calling(function):
                result = body()
        except pynvml.NVMLError as error:
            self.mismatched = error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
            self._stale = self._stale or error.value in _STALE
            if error.value in _NO_DRIVER:
                raise DriverAbsentError(_REMEDIES[error.value]) from error
            raise NvmlRefusal(function, error.value, str(error)) from error
        except UnicodeDecodeError as error:
            raise NvmlRefusal(function, pynvml.NVML_ERROR_UNKNOWN, f"returned {error.object!r}") from error
        self.mismatched = False
        return result

    def close(self) -> None:
        """Shut NVML down; errors are ignored."""
        if self._opened_at is None:
            return
        self._opened_at = None
        try:
            self.call("nvmlShutdown")
        except GpuError:
            return

    def reopen(self) -> None:
        """Open the library again, to find other GPUs. Raises GpuError."""
        self.close()
        self._open()

    def _open(self) -> None:
        if self._driver_root and not self.opened:
            with self._calling("dlopen"):
                _load(self._driver_root)
        try:
            self.call("nvmlInit")
        except NvmlRefusal as refusal:
            raise GpuError(_REMEDIES.get(refusal.code, f"NVML cannot be opened: {refusal}")) from refusal
        self._opened_at = time.monotonic()
        self._stale = False
        self.opened += 1


def _load(root: Path) -> None:
    """Load the library below ``root``. ``pynvml`` uses it then, because it has the name that it asks for.

    Raises GpuError if there is none, or if it cannot be loaded.
    """
    path = next((path for folder in _FOLDERS if (path := root / folder / _SONAME).is_file()), None)
    if path is None:
        raise GpuError(
            f"--driver-root={root} has no {_SONAME} (in {', '.join(_FOLDERS)}): check that the driver is "
            "installed there, and in a container that the folder of the node is mounted"
        )
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        raise GpuError(f"--driver-root={root}: {path} cannot be loaded: {error}") from error
