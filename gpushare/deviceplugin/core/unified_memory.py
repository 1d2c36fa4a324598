"""GPUs that share the memory of their host: the driver reports no size, so the settings declare one. Pure."""

from dataclasses import replace
from typing import Final

from gpushare.model.hardware import SHARES_HOST_MEMORY, Gpu, Inventory

_SETTING: Final = "flag --unified-memory-mib, unifiedMemoryMib in a stack"


def with_declared_memory(inventory: Inventory, declared_mib: int | None) -> Inventory:
    """The inventory with that size of each GPU that shares its host's memory; None declares no size."""
    if declared_mib is None:
        return inventory
    gpus = (replace(gpu, mib=declared_mib) if gpu.unified else gpu for gpu in inventory.gpus)
    return replace(inventory, gpus=tuple(gpus))


def reason_without_size(gpu: Gpu) -> str | None:
    """Why such a GPU cannot be shared; None for other GPUs, and with a declared size that its host has."""
    if not gpu.unified:
        return None
    if gpu.host_mib and gpu.mib >= gpu.host_mib:
        return (
            f"it shares the memory of its host, which has {gpu.host_mib} MiB, and the declared "
            f"{gpu.mib} MiB leave nothing for the host: declare less ({_SETTING})"
        )
    if gpu.mib:
        return None
    return (
        f"{SHARES_HOST_MEMORY}; to share it, declare how much of that memory pods may allocate ({_SETTING})"
    )


def remark_on_declared(gpu: Gpu) -> str | None:
    """What an administrator should know of such a GPU that is shared; None for other GPUs."""
    if not gpu.unified:
        return None
    return f"it shares the memory of its host, of which pods may allocate {gpu.mib} MiB, as declared"
