"""The part of a card that MPS gives a container, and how its programs are told. Pure.

MPS takes its limits from the environment of each program, and for each process of its own: a second barrier
for memory, and the only one for compute. What does not belong here: the control daemons (``gpushare.mps``).
"""

from dataclasses import dataclass
from typing import Final

from gpushare.contract import ENV_MPS_MEMORY, ENV_MPS_PERCENT, ENV_MPS_PIPES, MPS_INSIDE
from gpushare.deviceplugin.holding import core_of, is_part, limits_of
from gpushare.deviceplugin.tenancy import Grant, Tenancy
from gpushare.model.demand import Demand

_ONLY_CARD: Final = 0
"""Its place among those that the container sees."""


@dataclass(frozen=True, slots=True)
class Part:
    """Of one card: ``mib`` for each process, ``percent`` of the card's compute. None is no limit."""

    card: str
    mib: int | None
    percent: int | None


def part_of(tenancy: Tenancy, grant: Grant, demand: Demand) -> Part:
    """The part of the only card of a grant."""
    (limit,) = limits_of(tenancy, grant)
    core = core_of(demand, grant)
    mib = limit.limit_mib if tenancy.isolated else None
    return Part(limit.uuid, mib, core if tenancy.isolated and is_part(core) else None)


def envs_of(part: Part) -> dict[str, str]:
    """What a container's programs are told."""
    envs = {ENV_MPS_PIPES: MPS_INSIDE}
    if part.mib is not None:
        envs[ENV_MPS_MEMORY] = f"{_ONLY_CARD}={part.mib}M"
    if part.percent is not None:
        envs[ENV_MPS_PERCENT] = str(part.percent)
    return envs
