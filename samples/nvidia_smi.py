"""A look-alike of ``nvidia-smi [-L]``, for containers whose runtime mounts no real one.

It prints the table of drivers up to 440, as in the ACK tutorial, with what NVML says to a process of the
container: memory is the limit of the container and its own usage. The title is not NVIDIA's.
"""

import ctypes
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final

_LIBRARY: Final = "libnvidia-ml.so.1"
_NO_DRIVER: Final = 3
_UNKNOWN: Final = "N/A"
_TEXT_BYTES: Final = 96
_NAME_WIDTH: Final = 18
_MIB: Final = 1 << 20
_TITLE: Final = """\
+-----------------------------------------------------------------------------+
| SAMPLE-SMI {driver:<13}Driver Version: {driver:<13}CUDA Version: {cuda:<9}|
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
"""
_GPU: Final = """\
|{index:4}  {name:<18}  {persistence:<3}  | {bus:>16} Off |{ecc:>21} |
| N/A  {temperature:>4}   {state:>3}  {power:>5} /{cap:>5} |{used:>10} /{total:>9} |{load:>8}      Default |
+-------------------------------+----------------------+----------------------+
"""
_PROCESSES: Final = """
+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
+-----------------------------------------------------------------------------+
"""


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Load(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Pci(ctypes.Structure):
    _fields_ = (
        ("old_bus", ctypes.c_char * 16),
        ("numbers", ctypes.c_uint * 5),
        ("bus", ctypes.c_char * 32),
    )


@dataclass
class Nvml:
    """NVML of this machine. Raises OSError if there is no driver, or if it does not start."""

    library: ctypes.CDLL = field(default_factory=lambda: ctypes.CDLL(_LIBRARY))

    def __post_init__(self) -> None:
        if not self._answers("nvmlInit_v2"):
            raise OSError(f"{_LIBRARY} does not start")

    def text(self, name: str, *of: Any) -> str:
        """A text, N/A if the driver does not know it."""
        found = ctypes.create_string_buffer(_TEXT_BYTES)
        return found.value.decode() if self._answers(name, *of, found, _TEXT_BYTES) else _UNKNOWN

    def number(self, name: str, *of: Any, form: str = "{}", divisor: int = 1) -> str:
        """A number in its form, N/A if the driver does not know it."""
        found = ctypes.c_ulonglong()
        known = self._answers(name, *of, ctypes.byref(found))
        return form.format(found.value // divisor) if known else _UNKNOWN

    def filled(self, name: str, found: Any, *of: Any) -> Any:
        """The structure, filled by the driver; None if it does not know it."""
        return found if self._answers(name, *of, ctypes.byref(found)) else None

    def gpus(self) -> list[ctypes.c_void_p]:
        """The GPUs of the process."""
        count = self.number("nvmlDeviceGetCount_v2")
        return [self._gpu(index) for index in range(0 if count == _UNKNOWN else int(count))]

    def _gpu(self, index: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._answers("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        return handle

    def _answers(self, name: str, *arguments: Any) -> bool:
        function = getattr(self.library, name, None)
        return function is not None and function(*arguments) == 0


def main() -> int:
    """Print the table, or the GPUs with ``-L``; 2 for wrong usage, 3 without a driver."""
    words = sys.argv[1:]
    if words not in ([], ["-L"]):
        print("usage: nvidia-smi [-L] (a look-alike without other parameters)", file=sys.stderr)
        return 2
    try:
        nvml = Nvml()
    except OSError as error:
        print(f"{error}: the container has no GPU, or the runtime mounts no driver", file=sys.stderr)
        return _NO_DRIVER
    print(listed(nvml) if words else f"{time.asctime()}\n{table(nvml)}", end="")
    return 0


def listed(nvml: Nvml) -> str:
    """A line for each GPU."""
    texts = (
        f"GPU {index}: {nvml.text('nvmlDeviceGetName', gpu)} (UUID: {nvml.text('nvmlDeviceGetUUID', gpu)})\n"
        for index, gpu in enumerate(nvml.gpus())
    )
    return "".join(texts)


def table(nvml: Nvml) -> str:
    """The lines below the time."""
    cuda = nvml.number("nvmlSystemGetCudaDriverVersion_v2")
    version = cuda if cuda == _UNKNOWN else f"{int(cuda) // 1000}.{int(cuda) % 1000 // 10}"
    title = _TITLE.format(driver=nvml.text("nvmlSystemGetDriverVersion"), cuda=version)
    return title + "".join(_rows(nvml, index, gpu) for index, gpu in enumerate(nvml.gpus())) + _PROCESSES


def _rows(nvml: Nvml, index: int, gpu: ctypes.c_void_p) -> str:
    memory = nvml.filled("nvmlDeviceGetMemoryInfo", _Memory(), gpu)
    load = nvml.filled("nvmlDeviceGetUtilizationRates", _Load(), gpu)
    pci = nvml.filled("nvmlDeviceGetPciInfo_v3", _Pci(), gpu)
    return _GPU.format(
        index=index,
        name=_short(nvml.text("nvmlDeviceGetName", gpu)),
        persistence="On" if nvml.number("nvmlDeviceGetPersistenceMode", gpu) == "1" else "Off",
        bus=pci.bus.decode() if pci else _UNKNOWN,
        ecc=_ecc(nvml, gpu),
        temperature=nvml.number("nvmlDeviceGetTemperature", gpu, 0, form="{}C"),
        state=nvml.number("nvmlDeviceGetPerformanceState", gpu, form="P{}"),
        power=nvml.number("nvmlDeviceGetPowerUsage", gpu, form="{}W", divisor=1000),
        cap=nvml.number("nvmlDeviceGetEnforcedPowerLimit", gpu, form="{}W", divisor=1000),
        used=f"{memory.used // _MIB}MiB" if memory else _UNKNOWN,
        total=f"{memory.total // _MIB}MiB" if memory else _UNKNOWN,
        load=f"{load.gpu}%" if load else _UNKNOWN,
    )


def _ecc(nvml: Nvml, gpu: ctypes.c_void_p) -> str:
    """Uncorrected errors since the driver was loaded."""
    uncorrected, volatile = 1, 0
    return nvml.number("nvmlDeviceGetTotalEccErrors", gpu, uncorrected, volatile)


def _short(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 3]}..."
