"""The IDs of the devices, one per unit of a GPU, and how many of them fit into one message. Pure.

The kubelet reads ListAndWatch with gRPC's default limit of 4 MiB per message. ``gpushare.model.devices``
defines the two forms of IDs; the short form is for lists that exceed the limit with the long form.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from gpushare.contract import RESOURCE_MEM
from gpushare.deviceplugin.core.interface import Device
from gpushare.model.cards import Card
from gpushare.model.demand import Malformed
from gpushare.model.devices import gpu_of_unit, long_id, short_id, unit_number

MESSAGE_LIMIT: Final = 4 * 1024 * 1024
"""The size limit of one message, and so of one list of devices, in bytes."""
_ENVELOPE: Final = 21
"""The most bytes around an ID: tags and lengths (6), "Unhealthy" (9), a NUMA node's topology (6)."""

Namer = Callable[[Card, int], str]


def namer_for(cards: Sequence[Card]) -> Namer | Malformed:
    """The form of IDs with which these GPUs fit into a message; Malformed if none does."""
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
    """All devices: ``units`` of each GPU, with the health of the GPU.

    Devices of cordoned GPUs are healthy: after a restart the kubelet rejects pods whose devices are
    unhealthy.
    """
    return (
        Device(namer(card, number), card.healthy or card.index in cordoned, card.numa)
        for card in cards
        for number in range(units(card))
    )


def cards_by_name(cards: Iterable[Card]) -> Mapping[str, Card]:
    """The GPUs by the names in device IDs of both forms: UUIDs and indices."""
    listed = tuple(cards)
    return {**{str(card.index): card for card in listed}, **{card.uuid: card for card in listed}}


def card_of(identifier: str, names: Mapping[str, Card]) -> Card | None:
    """The GPU of a device ID of either form; ``names`` comes from ``cards_by_name``."""
    return names.get(gpu_of_unit(identifier))


def indices_in(ids: Iterable[str], cards: Iterable[Card]) -> frozenset[int]:
    """The indices of the GPUs that these device IDs name; empty if they name none."""
    names = cards_by_name(cards)
    # First the names: with MiB as unit there are thousands of IDs, of a GPU or two.
    found = (names.get(name) for name in {gpu_of_unit(each) for each in ids})
    return frozenset(card.index for card in found if card)


def preferred(
    available: Sequence[str], must: Sequence[str], size: int, wanted: Sequence[int], cards: Sequence[Card]
) -> list[str]:
    """``size`` IDs: those of ``must``, then evenly from the wanted GPUs, then from any.

    ``wanted`` are GPU indices. The IDs of ``must`` count towards their GPU.
    """
    names = cards_by_name(cards)
    chosen = list(dict.fromkeys(must))[:size]
    spare: dict[int | None, list[str]] = {}
    for identifier in set(available).difference(chosen):
        card = card_of(identifier, names)
        spare.setdefault(card.index if card else None, []).append(identifier)
    required = [card.index for identifier in chosen if (card := card_of(identifier, names))]
    for index in dict.fromkeys(wanted):
        quota = size // len(wanted) - required.count(index)
        chosen += _take(spare.get(index, []), min(quota, size - len(chosen)))
    # From the GPU with the most free units, so that the IDs of a container name few GPUs.
    for pool in sorted(spare.values(), key=len, reverse=True):
        chosen += _take(pool, size - len(chosen))
    return chosen


def _take(pool: list[str], count: int) -> list[str]:
    """The first IDs of a pool by number, so that a container gets consecutive ones."""
    if count <= 0:
        return []
    pool.sort(key=unit_number)
    taken, pool[:] = pool[:count], pool[count:]
    return taken


def _size(cards: Sequence[Card], namer: Namer) -> int:
    return sum(_digits(card.units) + card.units * (len(namer(card, 0)) - 1 + _ENVELOPE) for card in cards)


def _digits(count: int) -> int:
    """The total number of digits of the numbers from 0 to ``count`` - 1."""
    total, length, start = 0, 1, 0
    while start < count:
        end = min(count, 10**length)
        total += (end - start) * length
        start, length = end, length + 1
    return total
