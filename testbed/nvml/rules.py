"""Which descriptions of a stub NVML make sense.

What belongs here: reading the JSON document and rules across its fields. What does not: its shape
(``description``).
"""

from collections.abc import Iterator, Sequence

import msgspec

from gpushare.errors import ConfigError
from testbed.nvml.description import Card, Description, Failure, Pair
from testbed.nvml.eras import ERAS, functions

_decode = msgspec.json.Decoder(Description).decode


def parse(text: str | bytes) -> Description:
    """The description in ``text``; raise ConfigError that names the field where it makes no sense."""
    try:
        description = _decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"description of the stub NVML: {error}") from None
    wrong = next(_nonsense(description), None)
    if wrong:
        raise ConfigError(f"description of the stub NVML: {wrong}")
    return description


def checked(description: Description) -> Description:
    """The same description, held to the rules of the JSON document."""
    return parse(msgspec.json.encode(description))


def _nonsense(description: Description) -> Iterator[str]:
    cards = description.cards
    if description.era not in ERAS:
        yield f"era {description.era} is unknown: choose one of {', '.join(map(str, ERAS))}"
        return
    yield from _twice("uuid", [card.uuid for card in cards])
    yield from _twice("pci", [card.pci for card in cards])
    for position, card in enumerate(cards):
        yield from _wrong_card(position, card)
    for pair in description.pairs:
        yield from _wrong_pair(pair, len(cards))
    yield from _twice("pair", [str(sorted(pair.cards)) for pair in description.pairs])
    yield from _too_many_links(description)
    for failure in description.failures:
        yield from _wrong_failure(failure, description)


def _twice(what: str, values: Sequence[str]) -> Iterator[str]:
    seen = set()
    for value in filter(None, values):
        if value in seen:
            yield f"{what} {value} is there twice"
        seen.add(value)


def _wrong_card(position: int, card: Card) -> Iterator[str]:
    if card.reserved_mib + card.used > card.total_mib:
        yield (
            f"card {position}: reserved_mib {card.reserved_mib} and {card.used} MiB in use "
            f"are more than total_mib {card.total_mib}"
        )


def _wrong_pair(pair: Pair, count: int) -> Iterator[str]:
    first, second = pair.cards
    if first == second or max(pair.cards) >= count:
        yield f"pair {list(pair.cards)} is no two of the {count} cards"


def _too_many_links(description: Description) -> Iterator[str]:
    for position, card in enumerate(description.cards):
        used = card.switch_links + sum(p.nvlinks for p in description.pairs if position in p.cards)
        if used > (card.nvlinks or 0):
            yield f"card {position}: {used} NVLinks are used of {card.nvlinks or 0} that it has"


def _wrong_failure(failure: Failure, description: Description) -> Iterator[str]:
    if failure.function not in functions(description.era):
        yield f"failure: NVML of era {description.era} has no function {failure.function!r}"
    if failure.card is not None and failure.card >= len(description.cards):
        yield f"failure of {failure.function}: there is no card {failure.card}"
