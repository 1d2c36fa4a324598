"""The shared GPUs of a machine: units per GPU, excluded GPUs with the reason, unschedulable GPUs. Pure.

``health`` decides whether a GPU is healthy, ``allocations`` which pods use it.

The units follow the memory size that the driver reports at each start; ``gpu_readings`` decides on changes
while the agent runs. Of a GPU that shares the memory of its host the driver reports no size: the settings
declare one. If a driver upgrade makes a GPU smaller than its allocations, the smaller size is
published: the GPU is over-committed, gets no more pods, and its running pods continue.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gpushare.model.card_models import is_data_centre
from gpushare.model.cards import Card, format_links
from gpushare.model.hardware import SHARES_HOST_MEMORY, Gpu, Inventory
from gpushare.model.modes import Mode
from gpushare.model.objects import EMPTY
from gpushare.model.options import MemoryUnit

_MIB_PER_GIB: Final = 1024
_PROHIBITED: Final = "Prohibited"
_EXCLUSIVE: Final = ("Exclusive_Process", "Exclusive_Thread")
"""Compute modes as nvidia-smi writes them."""
_SETTING: Final = "flag --unified-memory-mib, unifiedMemoryMib in a stack"
WITHOUT_MPS: Final = "until its MPS control daemon is ready"


def units_of(mib: int, unit: MemoryUnit) -> int:
    """The number of whole units in that many MiB."""
    return mib // _MIB_PER_GIB if unit is MemoryUnit.GIB else mib


@dataclass(frozen=True, slots=True, order=True)
class ExcludedGpu:
    """A GPU that is not shared. ``model`` is empty if the driver does not report it.

    ``mig`` is whether the driver reports MIG mode.
    """

    index: int
    model: str
    reason: str
    mig: bool = False


@dataclass(frozen=True, slots=True)
class SharedGpus:
    """The GPUs that are shared, in index order.

    ``unlisted`` are their models that are no data-centre GPUs, ``remarks`` further notices, and ``cordoned``
    the indices of healthy GPUs that take no pods: an administrator cordoned them, or a whole-GPU pod uses
    them.
    """

    unit: MemoryUnit
    cards: tuple[Card, ...] = ()
    excluded: tuple[ExcludedGpu, ...] = ()
    unlisted: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    cordoned: frozenset[int] = frozenset()

    @property
    def unschedulable(self) -> str:
        """The indices of the GPUs that take no pods, in the form of the ConfigMap: ``0,2``."""
        return ",".join(str(card.index) for card in self.cards if not card.healthy)

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the administrator, one line each."""
        excluded = (f"{_name(out.index, out.model)} is not shared: {out.reason}" for out in self.excluded)
        unlisted = (f"{model} is not a data-centre GPU; it is shared nevertheless" for model in self.unlisted)
        return (*excluded, *unlisted, *self.remarks)


def with_declared_memory(inventory: Inventory, declared_mib: int | None) -> Inventory:
    """The inventory with that size of each GPU that shares its host's memory; None declares no size."""
    if declared_mib is None:
        return inventory
    gpus = (replace(gpu, mib=declared_mib) if gpu.unified else gpu for gpu in inventory.gpus)
    return replace(inventory, gpus=tuple(gpus))


def shared_gpus(
    inventory: Inventory,
    unit: MemoryUnit = MemoryUnit.GIB,
    *,
    refuse_unlisted: bool = False,
    cordoned: Collection[int] = (),
    unhealthy: Mapping[str, str] = EMPTY,
) -> SharedGpus:
    """The shared GPUs of a machine. ``unhealthy`` are reasons by UUID, ``cordoned`` indices."""
    reasons = {
        gpu.index: reason_against(gpu, unit, refuse_unlisted=refuse_unlisted) for gpu in inventory.gpus
    }
    shared = sorted((gpu for gpu in inventory.gpus if reasons[gpu.index] is None), key=lambda gpu: gpu.index)
    cards = (
        _card(
            gpu,
            unit,
            links=format_links(gpu.index, inventory.links),
            fault=unhealthy.get(gpu.uuid, ""),
            cordoned=gpu.index in cordoned,
        )
        for gpu in shared
    )
    excluded = [
        *(
            ExcludedGpu(gpu.index, gpu.model, reason, mig=bool(gpu.mig))
            for gpu in inventory.gpus
            if (reason := reasons[gpu.index])
        ),
        *(ExcludedGpu(index, "", text) for index, text in inventory.unreadable.items()),
    ]
    unlisted = sorted({gpu.model for gpu in shared if not is_data_centre(gpu.model, gpu.brand)})
    remarks = (text for gpu in shared for text in _remarks(gpu))
    healthy_cordoned = frozenset(
        gpu.index for gpu in shared if gpu.index in cordoned and gpu.uuid not in unhealthy
    )
    return SharedGpus(
        unit, tuple(cards), tuple(sorted(excluded)), tuple(unlisted), tuple(remarks), healthy_cordoned
    )


def reason_against(gpu: Gpu, unit: MemoryUnit, *, refuse_unlisted: bool) -> str | None:
    """Why a GPU cannot be shared; None if it can."""
    if gpu.mig:
        return "it is in MIG mode, which partitions it already"
    if gpu.compute_mode == _PROHIBITED:
        return (
            f"its compute mode {_PROHIBITED} lets no program use it; run nvidia-smi -i {gpu.index} -c DEFAULT"
        )
    if refuse_unlisted and not is_data_centre(gpu.model, gpu.brand):
        return "it is not a data-centre GPU, and --supported-models-only is set"
    if reason := _reason_without_size(gpu):
        return reason
    if units_of(gpu.mib, unit) <= 0:
        remedy = "; --memory-unit=MiB would show it" if gpu.mib > 0 else ""
        return f"its {gpu.mib} MiB are less than one unit of 1 {unit}{remedy}"
    return None


def _reason_without_size(gpu: Gpu) -> str | None:
    """Why a GPU with its host's memory cannot be shared; None with a size that fits, and for other GPUs."""
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


def _remarks(gpu: Gpu) -> Iterator[str]:
    """What an administrator should know of a shared GPU."""
    name = _name(gpu.index, gpu.model)
    if gpu.compute_mode in _EXCLUSIVE:
        yield (
            f"{name} is in compute mode {gpu.compute_mode}, in which pods share it through MPS only; if the "
            f"node's mode is not {Mode.MPS}, run nvidia-smi -i {gpu.index} -c DEFAULT"
        )
    if gpu.unified:
        yield (
            f"{name}: it shares the memory of its host, of which pods may allocate {gpu.mib} MiB, as declared"
        )


def with_closed(shared: SharedGpus, without_mps: Collection[str]) -> SharedGpus:
    """The shared GPUs with those of these UUIDs closed: they have no ready MPS control daemon."""
    return replace(shared, cards=tuple(_closed(card, without_mps) for card in shared.cards))


def _closed(card: Card, without_mps: Collection[str]) -> Card:
    # An unhealthy GPU keeps its own reason.
    closed = card.healthy and card.uuid in without_mps
    return replace(card, healthy=False, closed=WITHOUT_MPS) if closed else card


def _card(gpu: Gpu, unit: MemoryUnit, *, links: str, fault: str, cordoned: bool) -> Card:
    return Card(
        index=gpu.index,
        units=units_of(gpu.mib, unit),
        uuid=gpu.uuid,
        model=gpu.model,
        mib=gpu.mib,
        numa=gpu.numa,
        minor=gpu.minor,
        pci=gpu.pci,
        brand=gpu.brand,
        healthy=not (fault or cordoned),
        fault=fault,
        links=links,
    )


def changes(before: tuple[Card, ...], after: tuple[Card, ...]) -> tuple[str, ...]:
    """The differences between two lists of shared GPUs except for health, one line each.

    ``before`` may come from the node annotation that an earlier agent wrote.
    """
    old, new = _by_identity(before), _by_identity(after)
    gone = (f"{_name(card.index, card.model)} is gone" for key, card in old.items() if key not in new)
    met = (_difference(old.get(key), card) for key, card in new.items())
    return (*gone, *(text for text in met if text))


def _by_identity(cards: tuple[Card, ...]) -> dict[str, Card]:
    return {card.uuid or str(card.index): card for card in cards}


def _difference(old: Card | None, new: Card) -> str | None:
    name = _name(new.index, new.model)
    if old is None:
        return f"{name} has appeared with {new.units} units"
    texts = []
    if old.index != new.index:
        texts.append(f"was GPU {old.index}")
    if old.units != new.units:
        size = f" ({old.mib} → {new.mib} MiB)" if old.mib and old.mib != new.mib else ""
        texts.append(f"has {new.units} units instead of {old.units}{size}")
    return f"{name} {' and '.join(texts)}" if texts else None


def _name(index: int, model: str) -> str:
    return f"GPU {index} ({model})" if model else f"GPU {index}"
