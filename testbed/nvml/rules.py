"""Validates descriptions of a stub NVML.

What belongs here: reading the JSON document and rules across its fields. What does not: its schema
(``description``).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from gpushare.errors import ConfigError
from testbed.nvml.description import Description, Failure, NvmlGpu, Pair
from testbed.nvml.eras import ERAS, functions

_FIELD: Final = re.compile(r"^(nvmlDeviceGetFieldValues)\[[0-9]+\]$")
_decode = msgspec.json.Decoder(Description).decode


def parse(text: str | bytes) -> Description:
    """Parse a description; raise ConfigError with the field that is invalid."""
    try:
        description = _decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"description of the stub NVML: {error}") from None
    if problem := next(_errors(description), None):
        raise ConfigError(f"description of the stub NVML: {problem}")
    return description


def checked(description: Description) -> Description:
    """Return the description; raise ConfigError if it breaks a rule of the JSON document."""
    return parse(msgspec.json.encode(description))


def _errors(description: Description) -> Iterator[str]:
    cards = description.cards
    if description.era not in ERAS:
        yield f"era {description.era} is unknown: choose one of {', '.join(map(str, ERAS))}"
        return
    yield from _duplicates("uuid", [card.uuid for card in cards])
    yield from _duplicates("pci", [card.pci for card in cards])
    for position, card in enumerate(cards):
        yield from _card_errors(position, card)
    for pair in description.pairs:
        yield from _pair_errors(pair, len(cards))
    yield from _duplicates("pair", [str(sorted(pair.cards)) for pair in description.pairs])
    yield from _link_errors(description)
    for failure in description.failures:
        yield from _failure_errors(failure, description)


def _duplicates(what: str, values: Sequence[str]) -> Iterator[str]:
    seen = set()
    for value in filter(None, values):
        if value in seen:
            yield f"{what} {value} occurs twice"
        seen.add(value)


def _card_errors(position: int, card: NvmlGpu) -> Iterator[str]:
    if card.total_mib is not None and card.reserved_mib + card.used > card.total_mib:
        yield (
            f"card {position}: reserved_mib {card.reserved_mib} and {card.used} MiB in use "
            f"are more than total_mib {card.total_mib}"
        )


def _pair_errors(pair: Pair, count: int) -> Iterator[str]:
    first, second = pair.cards
    if first == second or max(pair.cards) >= count:
        yield f"pair {list(pair.cards)} is not two of the {count} cards"


def _link_errors(description: Description) -> Iterator[str]:
    for position, card in enumerate(description.cards):
        used = card.switch_links + sum(p.nvlinks for p in description.pairs if position in p.cards)
        if used > (card.nvlinks or 0):
            yield f"card {position}: uses {used} NVLinks but has {card.nvlinks or 0}"


def _failure_errors(failure: Failure, description: Description) -> Iterator[str]:
    if _FIELD.sub(r"\1", failure.function) not in functions(description.era):
        yield f"failure: NVML of era {description.era} has no function {failure.function!r}"
    if failure.card is not None and failure.card >= len(description.cards):
        yield f"failure of {failure.function}: there is no card {failure.card}"
