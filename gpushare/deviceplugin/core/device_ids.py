"""The IDs of the kubelet's devices: one per unit of a card, and how many of them fit a message.

The kubelet reads ListAndWatch with gRPC's default limit of 4 MiB a message. The forms of IDs are in
``gpushare.model.devices``; the short one is for lists that would be too long with the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from gpushare.contract import RESOURCE_MEM
from gpushare.deviceplugin.core.interface import Device
from gpushare.model.cards import Card
from gpushare.model.demand import Malformed
from gpushare.model.devices import gpu_of_unit, long_id, short_id, unit_number

MESSAGE_LIMIT: Final = 4 * 1024 * 1024
"""Bytes that the kubelet takes in one message, and so in one list of devices."""
_ENVELOPE: Final = 21
"""Bytes around an ID at most: tags and lengths (6), "Unhealthy" (9), a NUMA node's topology (6)."""

Namer = Callable[[Card, int], str]


def namer_for(cards: Sequence[Card]) -> Namer | Malformed:
    """How to name the units of these cards within the limit, or which unit of memory would fit."""
    for namer in (long_id, short_id):
        if _size(cards, namer) <= MESSAGE_LIMIT:
            return namer
    units = sum(card.units for card in cards)
    return Malformed(
        f"{units} devices of {RESOURCE_MEM} need {_size(cards, short_id)} bytes, the kubelet takes "
        f"{MESSAGE_LIMIT} in one message: start with --memory-unit=GiB"
    )


def devices_of(
    cards: Iterable[Card], namer: Namer, units: Callable[[Card], int], cordoned: frozenset[int] = frozenset()
) -> Iterator[Device]:
    """All devices, one after the other: ``units`` of each card, as healthy as the card is.

    Those of cordoned cards are healthy: the kubelet would turn away pods that hold them when it, or
    the node, starts anew.
    """
    return (
        Device(namer(card, number), card.healthy or card.index in cordoned, card.numa)
        for card in cards
        for number in range(units(card))
    )


def cards_by_name(cards: Iterable[Card]) -> Mapping[str, Card]:
    """What IDs of either form call the cards: UUIDs and indices."""
    listed = tuple(cards)
    return {**{str(card.index): card for card in listed}, **{card.uuid: card for card in listed}}


def card_of(identifier: str, names: Mapping[str, Card]) -> Card | None:
    """The card that an ID of either form speaks of; ``names`` as from ``cards_by_name``."""
    return names.get(gpu_of_unit(identifier))


def preferred(
    available: Sequence[str], must: Sequence[str], size: int, wanted: Sequence[int], cards: Sequence[Card]
) -> list[str]:
    """``size`` IDs: those that must be, then evenly from the wanted cards, then from any.

    ``wanted`` are card indices. What the kubelet must have counts for its card.
    """
    names = cards_by_name(cards)
    chosen = list(dict.fromkeys(must))[:size]
    spare: dict[int | None, list[str]] = {}
    for identifier in set(available).difference(chosen):
        card = card_of(identifier, names)
        spare.setdefault(card.index if card else None, []).append(identifier)
    held = [card.index for identifier in chosen if (card := card_of(identifier, names))]
    for index in dict.fromkeys(wanted):
        quota = size // len(wanted) - held.count(index)
        chosen += _take(spare.get(index, []), min(quota, size - len(chosen)))
    for pool in sorted(spare.values(), key=len, reverse=True):
        chosen += _take(pool, size - len(chosen))
    return chosen


def _take(pool: list[str], count: int) -> list[str]:
    """The first IDs of a pool, in the order of their numbers: a container gets a run of them."""
    if count <= 0:
        return []
    pool.sort(key=unit_number)
    taken, pool[:] = pool[:count], pool[count:]
    return taken


def _size(cards: Sequence[Card], namer: Namer) -> int:
    return sum(_digits(card.units) + card.units * (len(namer(card, 0)) - 1 + _ENVELOPE) for card in cards)


def _digits(count: int) -> int:
    """The digits of all numbers from 0 to ``count`` - 1 together."""
    total, length, start = 0, 1, 0
    while start < count:
        end = min(count, 10**length)
        total += (end - start) * length
        start, length = end, length + 1
    return total
