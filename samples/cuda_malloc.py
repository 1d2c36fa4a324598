"""``cuda_malloc -size=<MiB> [-hold]``: allocates memory on each GPU, with the output of the ACK tutorial.

With ``-hold`` it keeps the memory until it is stopped.
"""

import signal
import sys
from typing import Final

from samples.driver import MIB, OUT_OF_MEMORY, CudaDevice, CudaError, Driver

_NO_DRIVER: Final = 3
_ERROR: Final = (
    'CUDA error at cgpu_cuda_malloc.cu:119 code={code}({name}) "cudaMalloc( (void**)&dev_c, malloc_size)"'
)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 1 if an allocation fails, 2 for wrong usage, 3 without a driver."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        mebibytes = size_in(words)
    except ValueError:
        print("usage: cuda_malloc -size=<MiB> [-hold]", file=sys.stderr)
        return 2
    print("gpu_cuda_malloc starting...", flush=True)
    try:
        driver = Driver()
    except OSError as error:
        print(f"{error}: the container has no GPU, or the runtime mounts no driver", file=sys.stderr)
        return _NO_DRIVER
    try:
        _allocate(driver, mebibytes)
    except CudaError as error:
        name = "cudaErrorMemoryAllocation" if error.code == OUT_OF_MEMORY else "cudaErrorUnknown"
        print(_ERROR.format(code=error.code, name=name), flush=True)
        return 1
    if "-hold" in words:
        # The first process of a container ignores signals that it does not handle.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        print(f"Holding {mebibytes} MBytes on each GPU", flush=True)
        signal.pause()
    return 0


def size_in(words: list[str]) -> int:
    """The size of ``-size=<MiB>``. Raises ValueError without one, for a wrong one, and for unknown words."""
    sizes = [word.removeprefix("-size=") for word in words if word.startswith("-size=")]
    if len(sizes) != 1 or set(words) - {"-hold", f"-size={sizes[0]}"}:
        raise ValueError
    return int(sizes[0])


def _allocate(driver: Driver, mebibytes: int) -> None:
    devices = driver.devices()
    print(f"Detected {len(devices)} CUDA Capable device(s)\n", flush=True)
    for device in devices:
        print(described(device, driver.version), flush=True)
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
