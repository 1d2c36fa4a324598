"""The cards of a node, and the node annotation ``gpushare.io/cards`` that lists them.

The annotation is a JSON list; ``index`` and ``units`` are required, the rest may be absent::

    [{"index": 0, "uuid": "GPU-…", "model": "Tesla T4", "mib": 15079, "units": 14,
      "numa": 0, "minor": 0, "pci": "00000000:00:07.0", "healthy": true, "whole_gpu_pods": []}]

``whole_gpu_pods`` names the pods (``namespace/name``) whose containers have the card as a whole GPU from
another device plugin. Such a card is full, and not ``healthy``, for readers that do not know the field.
"""

from dataclasses import dataclass

import msgspec

from gpushare.model.demand import Malformed
from gpushare.model.quantity import parse_small


@dataclass(frozen=True, slots=True)
class Card:
    """One physical card. ``units`` is what can be promised of it; ``mib`` its size, 0 if unknown."""

    index: int
    units: int
    uuid: str = ""
    model: str = ""
    mib: int = 0
    numa: int | None = None
    minor: int | None = None
    pci: str = ""
    healthy: bool = True
    whole_gpu_pods: tuple[str, ...] = ()

    @property
    def faulty(self) -> bool:
        """Whether it is known to be unhealthy, and not merely closed because pods have it as a whole GPU."""
        return not self.healthy and not self.whole_gpu_pods


_decode_cards = msgspec.json.Decoder(tuple[Card, ...]).decode


def parse_cards(text: str) -> tuple[Card, ...] | Malformed:
    """The cards in index order, or what is wrong with the text."""
    try:
        cards = _decode_cards(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return Malformed(str(error))
    if any(card.index < 0 or card.units < 0 for card in cards):
        return Malformed("an index or a size is negative")
    if len({card.index for card in cards}) != len(cards):
        return Malformed("two cards have the same index")
    return tuple(sorted(cards, key=lambda card: card.index))


def format_cards(cards: tuple[Card, ...]) -> str:
    """The annotation's text, every field written."""
    return msgspec.json.encode(cards).decode()


def in_use_as_whole(card: Card) -> str:
    """Until when the card takes no pods, where pods have it as a whole GPU; empty where none has."""
    pods = card.whole_gpu_pods
    if len(pods) > 1:
        return f"until {' and '.join(pods)} are gone, which have a whole GPU"
    return f"until {pods[0]} is gone, which has a whole GPU" if pods else ""


def equal_cards(units: int, count: int) -> tuple[Card, ...]:
    """``count`` cards of the same size: all that capacity tells on nodes of the original plugin."""
    return tuple(Card(index, units // count) for index in range(count))


def share_mib(mib: int, units: int, of: int) -> int:
    """MiB that ``units`` stand for on a card of ``mib`` MiB that is divided into ``of`` units."""
    return mib * units // of if of else 0


def parse_indices(text: str) -> tuple[frozenset[int], tuple[str, ...]]:
    """The card indices of a comma-separated list, and the entries that are none.

    Spaces and empty entries are tolerated. An entry that is no index names no card.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    found = {entry: parse_small(entry) for entry in entries}
    sound = frozenset(index for index in found.values() if index is not None)
    return sound, tuple(entry for entry, index in found.items() if index is None)
