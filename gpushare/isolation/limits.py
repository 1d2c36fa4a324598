"""The limit file: the limits of a container on each of its GPUs.

Formats and parses its text as pure functions; ``native/limit.c`` reads the same format. A first line names
the format, each GPU has one line, and a last line shows that the file is complete:

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
"""The GPUs of one container, in the limit file and in the region."""
_MAX_MIB: Final = 1 << 24
_UUID: Final = re.compile(r"[0-9A-Za-z-]{5,47}")
_NUMBERS: Final = ("card_mib", "units", "card_units", "context_mib", "core_percent")
_LINE: Final = re.compile(
    rf"^card=(\S+) limit_mib=[0-9]+ {' '.join(f'{each}=([0-9]{{1,8}})' for each in _NUMBERS)}$", re.MULTILINE
)

_ESTIMATE: Final = re.compile(r" context_mib=[0-9]+")


@dataclass(frozen=True, slots=True)
class CardLimit:
    """A container's limit on one GPU: ``units`` of ``card_units``, on a GPU with ``card_mib`` of memory.

    ``context_mib`` is the initial estimate for the size of a CUDA context; ``core_percent`` is the compute
    share, 0 for no limit.
    """

    uuid: str
    card_mib: int
    units: int
    card_units: int
    context_mib: int = 0
    core_percent: int = 0

    @property
    def limit_mib(self) -> int:
        """The memory limit in MiB, rounded down."""
        return self.card_mib * self.units // self.card_units


def text(cards: Sequence[CardLimit]) -> str:
    """The limit file of a container with these GPUs. Raises InvalidRequest if the library would reject it."""
    if len(cards) > MAX_CARDS:
        raise InvalidRequest(f"a container can have limits on {MAX_CARDS} GPUs, not on {len(cards)}")
    if len({card.uuid for card in cards}) < len(cards):
        raise InvalidRequest(f"a GPU has two limits: {', '.join(card.uuid for card in cards)}")
    return "".join(["gpushare-limit 1\n", *map(_line, cards), "end\n"])


def parse(content: str) -> tuple[CardLimit, ...]:
    """The limits in a limit file. Raises InvalidRequest if ``text`` would not have written the content."""
    uuids_and_numbers = (found.groups() for found in _LINE.finditer(content))
    cards = tuple(CardLimit(uuid, *map(int, numbers)) for uuid, *numbers in uuids_and_numbers)
    if text(cards) != content:
        raise InvalidRequest("not a limit file of format 1")
    return cards


def is_same_limit(one: str, other: str) -> bool:
    """Whether two limit files have the same limits; estimates of contexts may differ."""
    return _ESTIMATE.sub("", one) == _ESTIMATE.sub("", other)


def _line(card: CardLimit) -> str:
    _check(card)
    return (
        f"card={card.uuid} limit_mib={card.limit_mib} card_mib={card.card_mib} units={card.units} "
        f"card_units={card.card_units} context_mib={card.context_mib} core_percent={card.core_percent}\n"
    )


def _check(card: CardLimit) -> None:
    if not _UUID.fullmatch(card.uuid):
        raise InvalidRequest(f"{card.uuid!r} is not a valid GPU UUID")
    if not 0 <= card.units <= card.card_units <= _MAX_MIB or card.card_units == 0:
        raise InvalidRequest(f"GPU {card.uuid}: {card.units} of {card.card_units} units is not a valid share")
    if not (0 <= card.card_mib <= _MAX_MIB and 0 <= card.context_mib <= _MAX_MIB):
        raise InvalidRequest(
            f"GPU {card.uuid}: {card.card_mib} MiB with {card.context_mib} MiB per context is not valid"
        )
    if not 0 <= card.core_percent <= 100:  # noqa: PLR2004 - percent
        raise InvalidRequest(f"GPU {card.uuid}: {card.core_percent} is not a percentage")
