"""Binpack: fill GPUs and nodes one after the other, as the Aliyun extender does."""

from collections.abc import Iterable, Sequence

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, CardUsage
from gpushare.scheduling.placement.policy import fraction_left


class Binpack:
    """Prefers the least free memory. Ties go to the lowest index."""

    def ranked(self, _book: Book, fitting: Iterable[CardUsage], _demand: Demand) -> list[CardUsage]:
        """The GPU with the least free units first."""
        return sorted(fitting, key=lambda usage: (usage.free.mem, usage.card.index))

    def suitability(self, _book: Book, chosen: Sequence[CardUsage], demand: Demand) -> float:
        """1 for a node where the chosen GPUs become full."""
        return 1 - fraction_left(chosen, demand)
