"""The limits of a container: whether there are any, the text of its limit file, and its MPS limits. Pure.

Limit files and their lifetime belong to ``gpushare.deviceplugin.isolation``, the format of the file to
``gpushare.isolation.limits``.
"""

from dataclasses import dataclass, replace
from typing import Final

from gpushare.contract import CORE_PER_CARD, ENV_MPS_MEMORY, ENV_MPS_PERCENT, ENV_MPS_PIPES, MPS_INSIDE
from gpushare.deviceplugin.core.allocations import Allocation, Allocations
from gpushare.isolation.limits import CardLimit, parse, text
from gpushare.model.card_models import SMALLEST_CONTEXT_MIB, initial_context_mib
from gpushare.model.cards import Card
from gpushare.model.demand import Demand
from gpushare.model.modes import LIMITING, Mode

_VISIBLE_INDEX: Final = 0
"""The index of a container's only GPU, as MPS counts the visible GPUs."""


@dataclass(frozen=True, slots=True)
class MpsShare:
    """The MPS limits on one GPU: MiB for each process and percent of compute; None is no limit.

    ``card`` is the UUID of the GPU.
    """

    card: str
    mib: int | None
    percent: int | None


def is_limited(allocations: Allocations) -> bool:
    """Whether new containers on this node are limited to their units."""
    return allocations.isolated and allocations.mode in LIMITING


def is_compute_share(percent: int) -> bool:
    """Whether that is less than a whole GPU; 0 is no limit."""
    return 0 < percent < CORE_PER_CARD


def has_compute_share(limit: str) -> bool:
    """Whether a limit file limits the compute of some GPU."""
    return any(is_compute_share(card.core_percent) for card in parse(limit))


def core_of(demand: Demand, allocation: Allocation) -> int:
    """The container's own part of its pod's compute, in percent of each GPU."""
    return sum(each.core for each in demand.containers if each.name == allocation.container) // demand.cards


def limit_of(allocations: Allocations, allocation: Allocation, demand: Demand | None) -> str:
    """The text of the limit file, for the GPUs that the node still has.

    ``demand`` is that of the pod, None if unknown. Raises InvalidRequest for values outside the format.
    """
    core = core_of(demand, allocation) if demand and allocations.mode is Mode.CORE_MEM else 0
    return text(_limits(allocations, allocation, core))


def mps_share_of(allocations: Allocations, allocation: Allocation, demand: Demand) -> MpsShare:
    """The MPS limits of an allocation on one GPU; all None if the node does not limit containers."""
    (limit,) = _limits(allocations, allocation)
    if not allocations.isolated:
        return MpsShare(limit.uuid, None, None)
    core = core_of(demand, allocation)
    return MpsShare(limit.uuid, limit.limit_mib, core if is_compute_share(core) else None)


def envs_of(share: MpsShare) -> dict[str, str]:
    """The environment of a container that uses MPS."""
    envs = {ENV_MPS_PIPES: MPS_INSIDE}
    if share.mib is not None:
        envs[ENV_MPS_MEMORY] = f"{_VISIBLE_INDEX}={share.mib}M"
    if share.percent is not None:
        envs[ENV_MPS_PERCENT] = str(share.percent)
    return envs


def _limits(allocations: Allocations, allocation: Allocation, core: int = 0) -> list[CardLimit]:
    """The limits on the GPUs that the node still has, each with that percent of compute."""
    units = dict(allocation.cards)
    return [
        _limit(allocations, card, units[card.uuid], core) for card in allocations.cards if card.uuid in units
    ]


def _limit(allocations: Allocations, card: Card, units: int, core: int) -> CardLimit:
    """A GPU that now has fewer units than the allocation is allowed as a whole."""
    limit = CardLimit(card.uuid, card.mib, min(units, card.units), card.units, core_percent=core)
    return replace(limit, context_mib=_context_mib(allocations, card, limit.limit_mib))


def _context_mib(allocations: Allocations, card: Card, limit_mib: int) -> int:
    """The estimate of a context: the size that was measured on the GPU, else that of its model.

    It is at most half of the limit, so that a large estimate keeps no program from starting, and so from
    being measured. Clients of MPS share what a context takes; their part is unknown.
    """
    if allocations.mode is Mode.MPS:
        return SMALLEST_CONTEXT_MIB
    known = allocations.context_mib.get(card.uuid, initial_context_mib(card.model))
    return max(SMALLEST_CONTEXT_MIB, min(known, limit_mib // 2))
