"""Spread: keep pods apart, on GPUs and nodes with the most free memory."""

from collections.abc import Iterable, Sequence

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, CardUsage
from gpushare.scheduling.placement.policy import fraction_left


class Spread:
    """Prefers the most free memory. Ties go to the lowest index."""

    def ranked(self, _book: Book, fitting: Iterable[CardUsage], _demand: Demand) -> list[CardUsage]:
        """The GPU with the most free units first."""
        return sorted(fitting, key=lambda usage: (-usage.free.mem, usage.card.index))

    def suitability(self, _book: Book, chosen: Sequence[CardUsage], demand: Demand) -> float:
        """Close to 1 for a node where the chosen GPUs stay almost free."""
        return fraction_left(chosen, demand)
