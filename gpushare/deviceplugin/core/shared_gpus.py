"""The line-up: which cards of the machine are shared, and how many units each has. Pure.

What is decided here: units per card, cards that are left out and why, cards that take nothing. What
is not: whether a card is healthy (``health``), and who holds it (``tenancy``).

Units follow the driver's word at every start. Where a driver upgrade makes a card smaller than what
its pods hold, the published size is the small one: the books then show the card over-committed,
nothing more is placed there, and no running pod is touched.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gpushare.model.card_models import is_listed
from gpushare.model.cards import Card
from gpushare.model.hardware import Gpu, Inventory
from gpushare.model.modes import Mode
from gpushare.model.options import MemoryUnit

_MIB_PER_GIB: Final = 1024
_PROHIBITED: Final = "Prohibited"
_EXCLUSIVE: Final = ("Exclusive_Process", "Exclusive_Thread")
"""Compute modes as nvidia-smi writes them."""


def units_of(mib: int, unit: MemoryUnit) -> int:
    """Whole units in so many MiB."""
    return mib // _MIB_PER_GIB if unit is MemoryUnit.GIB else mib


@dataclass(frozen=True, slots=True, order=True)
class ExcludedGpu:
    """A card that is not shared. ``model`` is empty where the driver does not tell it.

    ``mig``: whether it is in MIG mode, as far as the driver tells.
    """

    index: int
    model: str
    reason: str
    mig: bool = False


@dataclass(frozen=True, slots=True)
class SharedGpus:
    """The cards that are shared, in index order.

    ``unlisted`` are models among them that the table does not have, ``remarks`` what else is odd,
    ``cordoned`` the cards that are well and take nothing: people closed them, or a container has them as
    whole GPUs.
    """

    unit: MemoryUnit
    cards: tuple[Card, ...] = ()
    left_out: tuple[ExcludedGpu, ...] = ()
    unlisted: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    cordoned: frozenset[int] = frozenset()

    @property
    def closed(self) -> str:
        """The indices of the cards that take nothing, as the ConfigMap has them: ``0,2``."""
        return ",".join(str(card.index) for card in self.cards if not card.healthy)

    @property
    def notices(self) -> tuple[str, ...]:
        """What an administrator should know, one line each."""
        left_out = (f"{_name(out.index, out.model)} is not shared: {out.reason}" for out in self.left_out)
        unlisted = (
            f"{model} is not in the table of data-centre cards; it is shared all the same"
            for model in self.unlisted
        )
        return (*left_out, *unlisted, *self.remarks)


def shared_gpus(
    inventory: Inventory,
    unit: MemoryUnit = MemoryUnit.GIB,
    *,
    refuse_unlisted: bool = False,
    cordoned: Collection[int] = (),
    unhealthy: Collection[str] = (),
) -> SharedGpus:
    """The cards of a machine as they are offered. ``unhealthy`` holds UUIDs, ``cordoned`` indices."""
    reasons = {
        gpu.index: _reason_against(gpu, unit, refuse_unlisted=refuse_unlisted) for gpu in inventory.gpus
    }
    shared = sorted((gpu for gpu in inventory.gpus if reasons[gpu.index] is None), key=lambda gpu: gpu.index)
    cards = (
        _card(gpu, unit, healthy=gpu.uuid not in unhealthy and gpu.index not in cordoned) for gpu in shared
    )
    left_out = [
        *(
            ExcludedGpu(gpu.index, gpu.model, reason, mig=bool(gpu.mig))
            for gpu in inventory.gpus
            if (reason := reasons[gpu.index])
        ),
        *(ExcludedGpu(index, "", text) for index, text in inventory.unreadable.items()),
    ]
    unlisted = sorted({gpu.model for gpu in shared if not is_listed(gpu.model)})
    remarks = (_remark(gpu) for gpu in shared if gpu.compute_mode in _EXCLUSIVE)
    closed = frozenset(gpu.index for gpu in shared if gpu.index in cordoned and gpu.uuid not in unhealthy)
    return SharedGpus(unit, tuple(cards), tuple(sorted(left_out)), tuple(unlisted), tuple(remarks), closed)


def _reason_against(gpu: Gpu, unit: MemoryUnit, *, refuse_unlisted: bool) -> str | None:
    """Why a card cannot be shared, None where it can."""
    if gpu.mig:
        return "it is in MIG mode, which divides it already; it is left alone"
    if gpu.compute_mode == _PROHIBITED:
        return f"its compute mode {_PROHIBITED} lets no program use it; nvidia-smi -i {gpu.index} -c DEFAULT"
    if refuse_unlisted and not is_listed(gpu.model):
        return "its model is not in the table, and --refuse-unlisted-models is set"
    if units_of(gpu.mib, unit) <= 0:
        way_out = "; --memory-unit=MiB would show it" if gpu.mib > 0 else ""
        return f"its {gpu.mib} MiB are less than one unit of 1 {unit}{way_out}"
    return None


def _remark(gpu: Gpu) -> str:
    return (
        f"{_name(gpu.index, gpu.model)} is in compute mode {gpu.compute_mode}, in which pods share it by MPS "
        f"only; on a node whose mode is not {Mode.MPS}: nvidia-smi -i {gpu.index} -c DEFAULT"
    )


def _card(gpu: Gpu, unit: MemoryUnit, *, healthy: bool) -> Card:
    return Card(
        index=gpu.index,
        units=units_of(gpu.mib, unit),
        uuid=gpu.uuid,
        model=gpu.model,
        mib=gpu.mib,
        numa=gpu.numa,
        minor=gpu.minor,
        pci=gpu.pci,
        healthy=healthy,
    )


def changes(before: tuple[Card, ...], after: tuple[Card, ...]) -> tuple[str, ...]:
    """What became different between two line-ups, one line each; health is not looked at.

    ``before`` may be what the node's annotation still says from before a restart.
    """
    old, new = _by_identity(before), _by_identity(after)
    gone = (f"{_name(card.index, card.model)} is gone" for key, card in old.items() if key not in new)
    met = (_difference(old.get(key), card) for key, card in new.items())
    return (*gone, *(text for text in met if text))


def _by_identity(cards: tuple[Card, ...]) -> dict[str, Card]:
    return {card.uuid or str(card.index): card for card in cards}


def _difference(old: Card | None, new: Card) -> str | None:
    who = _name(new.index, new.model)
    if old is None:
        return f"{who} has appeared with {new.units} units"
    texts = []
    if old.index != new.index:
        texts.append(f"was card {old.index}")
    if old.units != new.units:
        size = f" ({old.mib} → {new.mib} MiB)" if old.mib and old.mib != new.mib else ""
        texts.append(f"has {new.units} units instead of {old.units}{size}")
    return f"{who} {' and '.join(texts)}" if texts else None


def _name(index: int, model: str) -> str:
    return f"card {index} ({model})" if model else f"card {index}"
