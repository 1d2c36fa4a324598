"""The limit file: what a container may use of each of its cards.

What belongs here: its text, as pure functions; ``native/limit.c`` reads it. What does not: where it is
put and mounted. It is one line a card between a first line that names the format and a last one that
shows that nothing is missing:

    gpushare-limit 1
    card=GPU-… limit_mib=4308 card_mib=15079 units=4 card_units=14 context_mib=121 core_percent=0
    end
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpushare.errors import InvalidRequest

MAX_CARDS: Final = 16
_HIGHEST_MIB: Final = 1 << 24
_UUID: Final = re.compile(r"[0-9A-Za-z-]{5,47}")
_NUMBERS: Final = ("card_mib", "units", "card_units", "context_mib", "core_percent")
_READ: Final = re.compile(
    rf"^card=(\S+) limit_mib=[0-9]+ {' '.join(f'{each}=([0-9]{{1,8}})' for each in _NUMBERS)}$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class CardLimit:
    """``units`` of the ``card_units`` of a card of ``card_mib``.

    ``context_mib`` is the first guess of what a CUDA context takes; ``core_percent`` is the share of the
    card's time, 0 for no limit.
    """

    uuid: str
    card_mib: int
    units: int
    card_units: int
    context_mib: int = 0
    core_percent: int = 0

    @property
    def limit_mib(self) -> int:
        """The share in whole MiB, rounded down."""
        return self.card_mib * self.units // self.card_units


def text(cards: Sequence[CardLimit]) -> str:
    """The limit file of a container with these cards. Raises InvalidRequest for what the library refuses."""
    if len(cards) > MAX_CARDS:
        raise InvalidRequest(f"a container can have limits on {MAX_CARDS} cards, not on {len(cards)}")
    if len({card.uuid for card in cards}) < len(cards):
        raise InvalidRequest(f"a card can have one limit: {', '.join(card.uuid for card in cards)}")
    return "".join(["gpushare-limit 1\n", *map(_line, cards), "end\n"])


def parse(content: str) -> tuple[CardLimit, ...]:
    """The cards of a limit file. Raises InvalidRequest for what ``text`` would not have written."""
    uuids_and_numbers = (found.groups() for found in _READ.finditer(content))
    cards = tuple(CardLimit(uuid, *map(int, numbers)) for uuid, *numbers in uuids_and_numbers)
    if text(cards) != content:
        raise InvalidRequest("this is no limit file of format 1")
    return cards


def _line(card: CardLimit) -> str:
    _check(card)
    return (
        f"card={card.uuid} limit_mib={card.limit_mib} card_mib={card.card_mib} units={card.units} "
        f"card_units={card.card_units} context_mib={card.context_mib} core_percent={card.core_percent}\n"
    )


def _check(card: CardLimit) -> None:
    if not _UUID.fullmatch(card.uuid):
        raise InvalidRequest(f"card {card.uuid!r} has no UUID that a limit file can hold")
    if not 0 <= card.units <= card.card_units <= _HIGHEST_MIB or card.card_units == 0:
        raise InvalidRequest(f"card {card.uuid}: {card.units} of {card.card_units} units is no share")
    if not (0 <= card.card_mib <= _HIGHEST_MIB and 0 <= card.context_mib <= _HIGHEST_MIB):
        raise InvalidRequest(
            f"card {card.uuid}: {card.card_mib} MiB with {card.context_mib} MiB a context is no size"
        )
    if not 0 <= card.core_percent <= 100:  # noqa: PLR2004 - percent
        raise InvalidRequest(f"card {card.uuid}: {card.core_percent} is no percentage")
