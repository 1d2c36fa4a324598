"""Nodes and pods of a cluster as ``replay`` sees them."""

from dataclasses import replace
from typing import Final

from gpushare.model.demand import Demand
from gpushare.model.gpu_choice import GpuChoice
from gpushare.model.resources import Resources
from gpushare.scheduling.book import Book
from gpushare.scheduling.placement.replay.needs import Need, Room

_MOST_MODELS: Final = 64


class Models:
    """Numbers of the models of GPUs, in the order in which they are seen; the last one is for others."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, book: Book) -> int:
        """The number of the model of a node's first GPU."""
        model = next((usage.card.model for usage in book.usages), None) or ""
        return self._shown(self._numbers.setdefault(model, len(self._numbers)))

    def allowed(self, choice: GpuChoice | None) -> int:
        """The bits of the models seen so far that a pod allows; 0 if it allows any, or none of them."""
        if choice is None or not (choice.use_models or choice.avoid_models):
            return 0
        # Whatever single GPUs it names.
        models = replace(choice.devices, use_uuids=frozenset(), avoid_uuids=frozenset())
        bits = 0
        for name, number in self._numbers.items():
            bits |= models.allows(name, "") << self._shown(number)
        return bits

    def _shown(self, number: int) -> int:
        return min(number, _MOST_MODELS - 1)


def room_of(book: Book, free: Resources, model: int) -> Room:
    """What is free on a node. GPUs that take no pods have nothing free."""
    is_open = book.node is not None and book.node.closed is None
    units = tuple(max(0, usage.free.mem) if is_open and usage.schedulable else 0 for usage in book.usages)
    return Room(free.cpu, free.memory, model, book.largest, units)


def empty_room_of(book: Book, offered: Resources, model: int) -> Room:
    """What would be free on the node without pods."""
    return Room(*offered, model, book.largest, tuple(usage.total.mem for usage in book.usages))


def need_of(demand: Demand, requested: Resources) -> Need:
    """What a pod needs."""
    units = demand.per_card.mem
    return Need(requested.cpu, requested.memory, demand.cards if units else 0, units)
