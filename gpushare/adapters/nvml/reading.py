"""Properties of GPUs, and their compute mode.

Links between GPUs belong in ``links``, their health in ``facts``.
"""

import re
from pathlib import Path
from typing import Any, Final

import pynvml

from gpushare.adapters.nvml.library import Library, NvmlRefusal
from gpushare.adapters.nvml.links import read_links
from gpushare.model.hardware import Gpu, Inventory

_MIB: Final = 1024 * 1024
_MEM_TOTAL: Final = re.compile(r"MemTotal:\s+([0-9]+) kB")
_COMPUTE_MODES: Final = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "Default",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD: "Exclusive_Thread",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "Prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "Exclusive_Process",
}
"""Names as in nvidia-smi."""


def read_inventory(library: Library, sysfs: Path) -> Inventory:
    """Read all GPUs. Raises NvmlRefusal only if the number of GPUs cannot be read."""
    gpus: dict[int, tuple[Any, Gpu]] = {}
    unreadable: dict[int, str] = {}
    for index in range(library.call("nvmlDeviceGetCount")):
        try:
            handle = library.call("nvmlDeviceGetHandleByIndex", index)
            gpus[index] = handle, _read_gpu(library, handle, index, sysfs)
        except NvmlRefusal as refusal:
            unreadable[index] = str(refusal)
    return Inventory(
        driver=library.call("nvmlSystemGetDriverVersion"),
        cuda=cuda_version(library),
        gpus=tuple(gpu for _, gpu in gpus.values()),
        links=read_links(library, gpus),
        unreadable=unreadable,
    )


def bound_gpus(sysfs: Path) -> frozenset[str]:
    """The PCI addresses that the kernel driver serves; empty if sysfs does not show them.

    An open library does not report GPUs that the driver serves since.
    """
    return frozenset(path.name for path in (sysfs / "bus" / "pci" / "drivers" / "nvidia").glob("*:*:*.*"))


def set_exclusive(library: Library, uuid: str, *, exclusive: bool) -> None:
    """Set the compute mode if it differs; requires CAP_SYS_ADMIN. Raises NvmlRefusal."""
    mode = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS if exclusive else pynvml.NVML_COMPUTEMODE_DEFAULT
    handle = library.call("nvmlDeviceGetHandleByUUID", uuid)
    if library.maybe("nvmlDeviceGetComputeMode", handle) != mode:
        library.call("nvmlDeviceSetComputeMode", handle, mode)


def usable_mib(library: Library, handle: Any) -> int | None:
    """Return the allocatable memory of a GPU: total without the driver's reserve.

    None for a GPU that shares the memory of its host: both versions are not supported, or report nothing.

    Since driver 510, the first version of the function includes the reserve in the total and the second
    reports it separately; older drivers have only the first version, without the reserve.
    """
    memory = library.maybe("nvmlDeviceGetMemoryInfo", handle, pynvml.nvmlMemory_v2)
    if memory is not None:
        return int(memory.total - memory.reserved) // _MIB or None
    memory = library.maybe("nvmlDeviceGetMemoryInfo", handle)
    return None if memory is None else int(memory.total) // _MIB or None


def numa_node(sysfs: Path, pci: str) -> int | None:
    """Return the NUMA node of a GPU's bus; None if the machine has none or does not report it.

    NVML's own ``nvmlDeviceGetNumaNodeId`` is for GPUs with memory that forms a separate NUMA node.
    """
    domain, _, rest = pci.partition(":")
    try:
        # NVML writes a domain of eight digits, the kernel one of at least four.
        name = f"{int(domain, 16):04x}:{rest.lower()}"
        node = int((sysfs / "bus" / "pci" / "devices" / name / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def host_mib(sysfs: Path) -> int | None:
    """Return the memory of the host: the sum of its NUMA nodes; None if sysfs does not show them."""
    files = sorted((sysfs / "devices" / "system" / "node").glob("node*/meminfo"))
    try:
        found = [_MEM_TOTAL.search(file.read_text()) for file in files]
    except OSError:
        return None
    return sum(int(match[1]) for match in found if match) // 1024 or None


def _read_gpu(library: Library, handle: Any, index: int, sysfs: Path) -> Gpu:
    pci = library.maybe("nvmlDeviceGetPciInfo", handle)
    mig = library.maybe("nvmlDeviceGetMigMode", handle)
    bus_id = "" if pci is None else str(pci.busId)
    mib = usable_mib(library, handle)
    return Gpu(
        index=index,
        uuid=library.call("nvmlDeviceGetUUID", handle),
        model=library.call("nvmlDeviceGetName", handle),
        mib=mib or 0,
        minor=library.maybe("nvmlDeviceGetMinorNumber", handle),
        pci=bus_id,
        numa=numa_node(sysfs, bus_id),
        mig=None if mig is None else mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE,
        brand=library.maybe("nvmlDeviceGetBrand", handle),
        compute_mode=_COMPUTE_MODES.get(library.maybe("nvmlDeviceGetComputeMode", handle)),
        unified=mib is None,
        host_mib=host_mib(sysfs) if mib is None else None,
    )


def cuda_version(library: Library) -> str | None:
    """Return the newest CUDA version that the driver supports. NVML returns 1000 × major + 10 × minor."""
    version = library.maybe("nvmlSystemGetCudaDriverVersion_v2")
    return None if version is None else f"{version // 1000}.{version % 1000 // 10}"
