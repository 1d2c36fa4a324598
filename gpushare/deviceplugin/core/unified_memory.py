"""GPUs that share the memory of their host: the driver reports no size, so the settings declare one. Pure."""

from dataclasses import replace

from gpushare.model.hardware import SHARES_HOST_MEMORY, Gpu, Inventory


def with_declared_memory(inventory: Inventory, declared_mib: int | None) -> Inventory:
    """The inventory with that size of each GPU that shares its host's memory; None declares no size."""
    if declared_mib is None:
        return inventory
    gpus = (replace(gpu, mib=declared_mib) if gpu.unified else gpu for gpu in inventory.gpus)
    return replace(inventory, gpus=tuple(gpus))


def reason_without_size(gpu: Gpu) -> str | None:
    """Why such a GPU cannot be shared; None for other GPUs, and with a declared size."""
    if not gpu.unified or gpu.mib:
        return None
    return (
        f"{SHARES_HOST_MEMORY}; to share it, declare how much of that memory pods may allocate: "
        "unifiedMemoryMib of the device plugin, flag --unified-memory-mib"
    )


def remark_on_declared(gpu: Gpu) -> str | None:
    """What an administrator should know of such a GPU that is shared; None for other GPUs."""
    if not gpu.unified:
        return None
    return f"it shares the memory of its host, of which pods may allocate {gpu.mib} MiB, as declared"
