"""Spread: keep pods apart, on GPUs and nodes with the most free memory."""

from collections.abc import Sequence

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, CardUsage
from gpushare.scheduling.placement.policy import first, fraction_left


class Spread:
    """Prefers the most free memory. Ties go to the lowest index."""

    def chosen(self, _book: Book, fitting: Sequence[CardUsage], demand: Demand) -> Sequence[CardUsage]:
        """The GPUs with the most free units."""
        return first(fitting, demand, lambda usage: -usage.free.mem)

    def score(self, _book: Book, chosen: Sequence[CardUsage], demand: Demand) -> float:
        """Close to 1 for a node where the chosen GPUs stay almost free."""
        return fraction_left(chosen, demand)
