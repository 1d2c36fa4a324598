"""What a later reading of the GPUs changes, while pods use them. Pure.

The size of a GPU with allocations stays: the limits of its containers are parts of that size. So another size
is adopted once the GPU has no allocations, and a GPU that became smaller takes no pods until then. A shared
GPU that cannot be shared any more, or that the driver no longer reports, stays in the list without taking
pods, so that its allocations remain visible.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

from gpushare.model.hardware import Gpu, Inventory

_GONE: Final = "the driver does not report it any more"


@dataclass(frozen=True, slots=True)
class Adopted:
    """The GPUs from now on. ``unfit`` are UUIDs of those that take no pods, with the reason."""

    inventory: Inventory
    unfit: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpusInUse:
    """UUIDs of the GPUs that are shared now, and of those with allocations."""

    shared: Collection[str]
    allocated: Collection[str]


def adopt(
    before: Inventory, found: Inventory, usage: GpusInUse, reason_against: Callable[[Gpu], str | None]
) -> Adopted:
    """The GPUs after the reading ``found``.

    ``reason_against`` returns why a GPU cannot be shared, None if it can.
    """
    unfit: dict[str, str] = {}
    shared = {gpu.uuid: gpu for gpu in before.gpus if gpu.uuid in usage.shared}
    gpus = {gpu.index: gpu for gpu in found.gpus}
    for gpu in found.gpus:
        if old := shared.get(gpu.uuid):
            allocated = gpu.uuid in usage.allocated
            gpus[gpu.index], reason = _merged(old, gpu, reason_against(gpu), allocated=allocated)
            unfit |= {gpu.uuid: reason} if reason else {}
    reported = {gpu.uuid for gpu in found.gpus}
    for uuid, old in shared.items():
        # Another GPU may have its index now, and an index must name one GPU.
        if uuid not in reported and gpus.setdefault(old.index, old) is old:
            # The health check reports a GPU that the driver has and cannot read.
            unfit |= {} if old.index in found.unreadable else {uuid: _GONE}
    unreadable = {index: text for index, text in found.unreadable.items() if index not in gpus}
    listed = tuple(gpus[index] for index in sorted(gpus))
    return Adopted(replace(found, gpus=listed, unreadable=unreadable), unfit)


def without_growth(
    before: Inventory, found: Inventory, shared: Collection[str], reason_against: Callable[[Gpu], str | None]
) -> Inventory:
    """The reading without what adds units: GPUs that are not ``shared`` yet, and memory of those that are."""
    sizes = {gpu.uuid: gpu.mib for gpu in before.gpus if gpu.uuid in shared}
    gpus = (
        replace(gpu, mib=min(gpu.mib, sizes.get(gpu.uuid, gpu.mib)))
        for gpu in found.gpus
        if gpu.uuid in sizes or reason_against(gpu)
    )
    return replace(found, gpus=tuple(gpus))


def _merged(old: Gpu, new: Gpu, reason: str | None, *, allocated: bool) -> tuple[Gpu, str | None]:
    """The GPU to share, and why it takes no pods, None if it does."""
    if reason:
        return replace(old, index=new.index, minor=new.minor, pci=new.pci, numa=new.numa), reason
    if new.mib == old.mib or not allocated:
        return new, None
    # Parts of a larger GPU would be larger than the limits of its containers.
    if new.mib > old.mib:
        return replace(new, mib=old.mib), None
    return replace(new, mib=old.mib), (
        f"it has {new.mib} MiB instead of {old.mib}; it takes pods again when its present pods are gone"
    )
