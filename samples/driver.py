"""The functions of the CUDA driver that the programs call, through ctypes. No CUDA toolkit is needed."""

import ctypes
from dataclasses import dataclass
from typing import Any, Final

MIB: Final = 1 << 20
OUT_OF_MEMORY: Final = 2
_LIBRARY: Final = "libcuda.so.1"
_NAME_BYTES: Final = 256
# A kernel that runs for as many nanoseconds as its parameter says; the driver compiles it for its GPU.
_KERNEL: Final = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry work(.param .u64 duration)
{
    .reg .pred %more;
    .reg .b64 %limit, %start, %now, %passed;
    ld.param.u64 %limit, [duration];
    mov.u64 %start, %globaltimer;
AGAIN:
    mov.u64 %now, %globaltimer;
    sub.u64 %passed, %now, %start;
    setp.lt.u64 %more, %passed, %limit;
    @%more bra AGAIN;
    ret;
}
"""
_THREADS: Final = 128
_BLOCKS: Final = 256


class CudaError(Exception):
    """A call that failed, and its code."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call} failed with code {code}")
        self.code = code


@dataclass(frozen=True)
class CudaDevice:
    """A GPU that the process sees; its memory is the limit of the container, if it has one."""

    index: int
    name: str
    total_bytes: int


class Driver:
    """The driver of this machine. Raises OSError if there is none."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(_LIBRARY)
        self._call("cuInit", 0)

    @property
    def version(self) -> str:
        """The newest version of CUDA that the driver supports."""
        number = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(number))
        return f"{number.value // 1000}.{number.value % 1000 // 10}"

    def devices(self) -> list[CudaDevice]:
        """Return the GPUs of the process."""
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return [self._device(index) for index in range(count.value)]

    def open(self, index: int) -> ctypes.c_void_p:
        """Use a GPU in this thread; return its context for other threads."""
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), index)
        self.use(context)
        return context

    def use(self, context: ctypes.c_void_p) -> None:
        """Use the GPU of a context in this thread."""
        self._call("cuCtxSetCurrent", context)

    def allocate(self, size: int) -> int:
        """Allocate memory of the GPU; return its address."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def kernel(self) -> ctypes.c_void_p:
        """Load the kernel for ``launch``."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_KERNEL))
        self._call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"work"))
        return function

    def launch(self, kernel: ctypes.c_void_p, duration_ns: int) -> None:
        """Start a kernel that keeps the GPU busy for that time."""
        duration = ctypes.c_uint64(duration_ns)
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(duration), ctypes.c_void_p))
        shape = (_BLOCKS, 1, 1, _THREADS, 1, 1)
        self._call("cuLaunchKernel", kernel, *shape, 0, None, parameters, None)

    def wait(self) -> None:
        """Wait until the GPU has finished."""
        self._call("cuCtxSynchronize")

    def _device(self, index: int) -> CudaDevice:
        name, size = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_size_t()
        self._call("cuDeviceGetName", name, _NAME_BYTES, index)
        self._call("cuDeviceTotalMem_v2", ctypes.byref(size), index)
        return CudaDevice(index, name.value.decode(), size.value)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise CudaError(name, code)
