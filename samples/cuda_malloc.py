"""``cuda_malloc [-size=<MiB>] [-hold]``: allocates memory on each GPU, with the output of the ACK tutorial.

With ``-hold`` it keeps the memory until it is stopped. Without ``-size`` the size is that of the variable
``SIZE_MIB``, else three quarters of what the container has requested, or 3072 MiB if it has a whole GPU. In
the ACK tutorial that is 3072 MiB too, so its manifest runs with another image and no further change.
"""

import os
import signal
import sys
from collections.abc import Mapping
from typing import Final

from samples.driver import MIB, OUT_OF_MEMORY, CudaDevice, CudaError, Driver

_NO_DRIVER: Final = 3
_OF_WHOLE_GPU_MIB: Final = 3072
_GIB_UNITS: Final = 1000
"""No GPU has so many units of a GiB: with more, units are MiB."""
_SIZE: Final = "SIZE_MIB"
_REQUESTED: Final = "ALIYUN_COM_GPU_MEM_CONTAINER"
_OF_GPU: Final = "ALIYUN_COM_GPU_MEM_DEV"
_ERROR: Final = (
    'CUDA error at cgpu_cuda_malloc.cu:119 code={code}({name}) "cudaMalloc( (void**)&dev_c, malloc_size)"'
)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 1 if an allocation fails, 2 for wrong usage, 3 without a driver."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        size = size_in(words, os.environ)
    except ValueError:
        print(
            f"usage: cuda_malloc -size=<MiB> [-hold], or {_SIZE}=<MiB> cuda_malloc [-hold]", file=sys.stderr
        )
        return 2
    print("gpu_cuda_malloc starting...", flush=True)
    try:
        driver = Driver()
    except OSError as error:
        print(f"{error}: the container has no GPU, or the runtime mounts no driver", file=sys.stderr)
        return _NO_DRIVER
    try:
        _allocate(driver, size)
    except CudaError as error:
        name = "cudaErrorMemoryAllocation" if error.code == OUT_OF_MEMORY else "cudaErrorUnknown"
        print(_ERROR.format(code=error.code, name=name), flush=True)
        return 1
    if "-hold" in words:
        # The first process of a container ignores signals that it does not handle.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        print("Holding the memory", flush=True)
        signal.pause()
    return 0


def size_in(words: list[str], environ: Mapping[str, str]) -> int | None:
    """The size in MiB that the user has set; None for the usual one. Raises ValueError for wrong usage."""
    sizes = [word.removeprefix("-size=") for word in words if word.startswith("-size=")]
    if len(sizes) > 1 or set(words) - {"-hold", *(f"-size={each}" for each in sizes)}:
        raise ValueError
    text = sizes[0] if sizes else environ.get(_SIZE)
    return None if text is None else int(text)


def usual_mib(environ: Mapping[str, str], gpus: int) -> int:
    """The size in MiB on each GPU of a container that sets none."""
    if _REQUESTED not in environ:
        return _OF_WHOLE_GPU_MIB
    unit_mib = 1 if int(environ.get(_OF_GPU, "0")) > _GIB_UNITS else 1024
    return int(environ[_REQUESTED]) * unit_mib * 3 // 4 // gpus


def _allocate(driver: Driver, size: int | None) -> None:
    devices = driver.devices()
    print(f"Detected {len(devices)} CUDA Capable device(s)\n", flush=True)
    for device in devices:
        print(described(device, driver.version), flush=True)
        mebibytes = usual_mib(os.environ, len(devices)) if size is None else size
        print(f"Try to malloc {mebibytes} MBytes memory on GPU {device.index}", flush=True)
        driver.open(device.index)
        driver.allocate(mebibytes * MIB)


def described(device: CudaDevice, version: str) -> str:
    """The lines about a GPU."""
    return (
        f'Device {device.index}: "{device.name}"\n'
        f"  CUDA Driver Version / Runtime Version          {version} / {version}\n"
        f"  Total amount of global memory:                 {device.total_bytes // MIB} MBytes "
        f"({device.total_bytes} bytes)"
    )
