"""All policies that a simulation can use, by name: those of the extender, then the references."""

from collections.abc import Mapping
from typing import Final

from gpushare.simulation.decider import DeciderFactory
from gpushare.simulation.product import PRODUCTS
from gpushare.simulation.reference import REFERENCES
from gpushare.simulation.without_gpu import by_scheduler

SIMULATED: Final[Mapping[str, DeciderFactory]] = {**PRODUCTS, **REFERENCES}


def factory_of(policy: str, *, scheduler: bool) -> DeciderFactory:
    """The policy. ``scheduler``: pods without GPUs do not pass through the extender."""
    factory = SIMULATED[policy]
    return by_scheduler(factory) if scheduler and policy in PRODUCTS else factory
