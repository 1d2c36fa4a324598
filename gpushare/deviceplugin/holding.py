"""Whether a container is held to its units, and what its limit file says. Pure.

What does not belong here: the files (``places``), and keeping them (``keeper``).
"""

from typing import Final

from gpushare.contract import CORE_PER_CARD
from gpushare.deviceplugin.tenancy import Grant, Tenancy
from gpushare.isolation.limits import CardLimit, parse, text
from gpushare.model.cards import Card
from gpushare.model.demand import Demand
from gpushare.model.modes import HELD, Mode

_CONTEXT_MIB: Final = 121
"""The first guess of a CUDA context: on a V100 with driver 418, nvidia-smi shows 3193 MiB for 3072."""


def is_held(tenancy: Tenancy) -> bool:
    """Whether containers that come now are held to their amounts."""
    return tenancy.isolated and tenancy.mode in HELD


def limit_of(tenancy: Tenancy, grant: Grant, demand: Demand | None) -> str:
    """The limit file for the cards of a grant that the node has; ``demand`` is that of its pod, if known.

    Raises InvalidRequest for what no limit file can say.
    """
    core = core_of(demand, grant) if demand and tenancy.mode is Mode.CORE_MEM else 0
    return text(limits_of(tenancy, grant, core))


def limits_of(tenancy: Tenancy, grant: Grant, core: int = 0) -> list[CardLimit]:
    """The limits on those cards of a grant that the node has, with that part of their time."""
    units = dict(grant.cards)
    return [_limit(card, units[card.uuid], core) for card in tenancy.cards if card.uuid in units]


def has_part(limit: str) -> bool:
    """Whether a limit file gives its container a part of some card's time, and not all of it."""
    return any(is_part(card.core_percent) for card in parse(limit))


def is_part(percent: int) -> bool:
    """Whether that is less than all of a card's time; 0 is no limit."""
    return 0 < percent < CORE_PER_CARD


def core_of(demand: Demand, grant: Grant) -> int:
    """The container's own part of its pod's compute, in percent of each card."""
    return sum(each.core for each in demand.containers if each.name == grant.container) // demand.cards


def _limit(card: Card, units: int, core: int) -> CardLimit:
    """A card that has become smaller than what was given of it is the limit as a whole."""
    return CardLimit(card.uuid, card.mib, min(units, card.units), card.units, _CONTEXT_MIB, core)
