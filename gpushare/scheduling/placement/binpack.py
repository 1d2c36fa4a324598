"""Binpack: fill GPUs and nodes one after the other, as the Aliyun extender does."""

from collections.abc import Sequence

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, CardUsage
from gpushare.scheduling.placement.policy import first, fraction_left


class Binpack:
    """Prefers the least free memory. Ties go to the lowest index."""

    def chosen(self, _book: Book, fitting: Sequence[CardUsage], demand: Demand) -> Sequence[CardUsage]:
        """The GPUs with the least free units."""
        return first(fitting, demand, lambda usage: usage.free.mem)

    def score(self, _book: Book, chosen: Sequence[CardUsage], demand: Demand) -> float:
        """1 for a node where the chosen GPUs become full."""
        return 1 - fraction_left(chosen, demand)
