"""All policies that a simulation can use, by name: those of the extender, then the references."""

from collections.abc import Callable, Mapping
from typing import Final

from gpushare.scheduling.placement.replay.engine import Engine
from gpushare.simulation.decider import PlacerFactory
from gpushare.simulation.product import PRODUCTS, REPLAY
from gpushare.simulation.reference import REFERENCES
from gpushare.simulation.replay import replaying
from gpushare.simulation.without_gpu import by_scheduler

SIMULATED: Final[Mapping[str, PlacerFactory]] = {**PRODUCTS, **REFERENCES}


def factory_of(policy: str, engine: Callable[[], Engine], *, scheduler: bool) -> PlacerFactory:
    """The policy. ``engine``: of ``replay``. ``scheduler``: pods without GPUs do not reach the extender."""
    factory = replaying(engine) if policy == REPLAY else SIMULATED[policy]
    return by_scheduler(factory) if scheduler and policy in PRODUCTS else factory
