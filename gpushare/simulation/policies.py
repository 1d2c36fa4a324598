"""All policies that a simulation can use, by name: those of the extender, then the references."""

from collections.abc import Callable, Mapping
from typing import Final

from gpushare.scheduling.placement.replay.engine import Engine
from gpushare.simulation.decider import PlacerFactory
from gpushare.simulation.kube_scheduler import divided, tied
from gpushare.simulation.product import PRODUCTS, REPLAY, product
from gpushare.simulation.reference import REFERENCES
from gpushare.simulation.replay import replaying

SIMULATED: Final[Mapping[str, PlacerFactory]] = {**PRODUCTS, **REFERENCES}


def factory_of(policy: str, engine: Callable[[], Engine], *, scheduler: bool) -> PlacerFactory:
    """The policy. ``engine``: of ``replay``. ``scheduler``: kube-scheduler decides as in a cluster."""
    if policy == REPLAY:
        return divided(replaying(engine)) if scheduler else replaying(engine)
    return tied(product(policy)) if scheduler and policy in PRODUCTS else SIMULATED[policy]
