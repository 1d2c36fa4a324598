"""Topology: GPUs of one pod that exchange data fast, over NVLink, PCIe switches, or within a NUMA node.

The node agent publishes the links. Where it publishes none, GPUs of one NUMA node count as linked; where
that is unknown too, as on nodes of the Aliyun plugin, the choice is that of binpack.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

from gpushare.model.demand import Demand
from gpushare.scheduling.book import Book, CardUsage
from gpushare.scheduling.link_search import BEST_VALUE, Part, best_choices, spot_of, value
from gpushare.scheduling.placement.policy import fraction_left

_LINKS_SHARE: Final = 0.8
"""The links decide about the node of several GPUs; among equal ones, the fuller GPUs do."""


class Topology:
    """Prefers the set with the best links in total. Of equal sets, the one of the fullest GPUs is taken.

    A single GPU is the one with the least free memory. Of equal ones, it is on the NUMA node with the least
    free memory, so that the other node keeps GPUs that belong together.
    """

    def chosen(self, book: Book, fitting: Sequence[CardUsage], demand: Demand) -> Sequence[CardUsage]:
        """The best set of the size."""
        if demand.cards == 1:
            return [_single(book, fitting)]
        ordered = sorted(fitting, key=lambda usage: (usage.free.mem, usage.card.index))
        ranks = {usage.card.index: rank for rank, usage in enumerate(ordered)}
        spots = sorted(spot_of(usage.card) for usage in fitting)
        choices = best_choices(tuple(spots), demand.cards)
        sets = (sorted(rank for part in choice for rank in _first(part, ranks)) for choice in choices)
        return [ordered[rank] for rank in min(sets, key=lambda each: (sum(each), each))]

    def score(self, _book: Book, chosen: Sequence[CardUsage], demand: Demand) -> float:
        """1 for a node where the chosen GPUs have NVLinks to each other and become full."""
        full = 1 - fraction_left(chosen, demand)
        values = [
            value(one, other) for one, other in combinations([spot_of(usage.card) for usage in chosen], 2)
        ]
        if not values:
            return full
        return _LINKS_SHARE * sum(values) / (BEST_VALUE * len(values)) + (1 - _LINKS_SHARE) * full


def _single(book: Book, fitting: Sequence[CardUsage]) -> CardUsage:
    free: Counter[int | None] = Counter()
    for usage in book.usages:
        free[usage.card.numa] += max(0, usage.free.mem)
    return min(fitting, key=lambda usage: (usage.free.mem, free[usage.card.numa], usage.card.index))


def _first(part: Part, ranks: Mapping[int, int]) -> Sequence[int]:
    """The ranks of the fullest GPUs of the part."""
    return sorted(ranks[index] for index in part.gpus)[: part.number]
