"""Whether a container is held to its units, and what its limit file says. Pure.

What does not belong here: the files (``places``), and keeping them (``keeper``).
"""

from dataclasses import dataclass
from typing import Final

from gpushare.contract import CORE_PER_CARD, ENV_MPS_MEMORY, ENV_MPS_PERCENT, ENV_MPS_PIPES, MPS_INSIDE
from gpushare.deviceplugin.core.allocations import Allocation, Allocations
from gpushare.isolation.limits import CardLimit, parse, text
from gpushare.model.cards import Card
from gpushare.model.demand import Demand
from gpushare.model.modes import HELD, Mode

_CONTEXT_MIB: Final = 121
"""The first guess of a CUDA context: on a V100 with driver 418, nvidia-smi shows 3193 MiB for 3072."""


def is_limited(allocations: Allocations) -> bool:
    """Whether containers that come now are held to their amounts."""
    return allocations.isolated and allocations.mode in HELD


def limit_of(allocations: Allocations, grant: Allocation, demand: Demand | None) -> str:
    """The limit file for the cards of a grant that the node has; ``demand`` is that of its pod, if known.

    Raises InvalidRequest for what no limit file can say.
    """
    core = core_of(demand, grant) if demand and allocations.mode is Mode.CORE_MEM else 0
    return text(limits_of(allocations, grant, core))


def limits_of(allocations: Allocations, grant: Allocation, core: int = 0) -> list[CardLimit]:
    """The limits on those cards of a grant that the node has, with that part of their time."""
    units = dict(grant.cards)
    return [_limit(card, units[card.uuid], core) for card in allocations.cards if card.uuid in units]


def has_compute_share(limit: str) -> bool:
    """Whether a limit file gives its container a part of some card's time, and not all of it."""
    return any(is_compute_share(card.core_percent) for card in parse(limit))


def is_compute_share(percent: int) -> bool:
    """Whether that is less than all of a card's time; 0 is no limit."""
    return 0 < percent < CORE_PER_CARD


def core_of(demand: Demand, grant: Allocation) -> int:
    """The container's own part of its pod's compute, in percent of each card."""
    return sum(each.core for each in demand.containers if each.name == grant.container) // demand.cards


def _limit(card: Card, units: int, core: int) -> CardLimit:
    """A card that has become smaller than what was given of it is the limit as a whole."""
    return CardLimit(card.uuid, card.mib, min(units, card.units), card.units, _CONTEXT_MIB, core)


_ONLY_CARD: Final = 0
"""Its place among those that the container sees."""


@dataclass(frozen=True, slots=True)
class MpsShare:
    """Of one card: ``mib`` for each process, ``percent`` of the card's compute. None is no limit."""

    card: str
    mib: int | None
    percent: int | None


def mps_share_of(allocations: Allocations, grant: Allocation, demand: Demand) -> MpsShare:
    """The part of the only card of a grant."""
    (limit,) = limits_of(allocations, grant)
    core = core_of(demand, grant)
    mib = limit.limit_mib if allocations.isolated else None
    return MpsShare(limit.uuid, mib, core if allocations.isolated and is_compute_share(core) else None)


def envs_of(part: MpsShare) -> dict[str, str]:
    """What a container's programs are told."""
    envs = {ENV_MPS_PIPES: MPS_INSIDE}
    if part.mib is not None:
        envs[ENV_MPS_MEMORY] = f"{_ONLY_CARD}={part.mib}M"
    if part.percent is not None:
        envs[ENV_MPS_PERCENT] = str(part.percent)
    return envs
