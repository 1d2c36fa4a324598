"""A stub NVML under control of a test: what it says can be changed while programs use it.

What belongs here: the folder and its changes. What does not: the meaning of a description
(``description``, ``rules``) and the library (``build``, ``native/``).

One process writes; any number may have the library loaded. A change takes effect with the next call
of NVML, except the list of cards: handles are given out at nvmlInit.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from gpushare.errors import ConfigError
from testbed.nvml import build, render
from testbed.nvml.description import MAX_EVENTS, Card, Description, Event, Failure, Pair, Process
from testbed.nvml.rules import checked, parse

_DESCRIPTION = "description.json"
_STATE = "state"


class NvmlStub:
    """The cards of one machine, in ``folder``. Every method raises ConfigError for what makes no sense."""

    def __init__(
        self,
        folder: Path,
        *,
        era: int = 580,
        cards: Sequence[Card] = (),
        pairs: Sequence[Pair] = (),
        **fields: Any,
    ) -> None:
        self.folder = folder.absolute()
        self._write(Description(era, self._completed(cards), tuple(pairs), **fields))

    @classmethod
    def from_json(cls, folder: Path, text: str | bytes) -> Self:
        """A stub that says what the JSON document describes."""
        return cls(folder, **msgspec.structs.asdict(parse(text)))

    @classmethod
    def attach(cls, folder: Path) -> Self:
        """Take over the stub that another process made in ``folder``."""
        try:
            text = (folder / _DESCRIPTION).read_bytes()
        except OSError as error:
            raise ConfigError(f"there is no stub NVML in {folder}: {error}") from None
        return cls.from_json(folder, text)

    @property
    def description(self) -> Description:
        """What the stub says."""
        return self._description

    @property
    def library(self) -> Path:
        """The ``libnvidia-ml.so.1`` of the stub's era."""
        return build.library(self._description.era)

    @property
    def state(self) -> Path:
        """The file that the library reads; it is replaced with each change."""
        return self.folder / _STATE

    @property
    def env(self) -> dict[str, str]:
        """What a process needs in its environment to find these cards."""
        folders = [str(self.library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        return {"LD_LIBRARY_PATH": ":".join(filter(None, folders)), "STUB_NVML": str(self.state)}

    @property
    def sysfs(self) -> Path:
        """Stands for ``/sys``: has ``bus/pci/devices/<id>/numa_node`` of each card."""
        return self.folder / "sys"

    def uuid(self, card: int) -> str:
        """The UUID of the card at that position."""
        return self._card(card).uuid

    def cards(self, cards: Sequence[Card]) -> None:
        """Other cards: programs see them from their next nvmlInit on, and lost ones at once."""
        self._change(cards=self._completed(cards), pairs=(), failures=())

    def set(self, card: int, **fields: Any) -> None:
        """Change fields of a card; None is what the card does not tell."""
        unknown = fields.keys() - set(Card.__struct_fields__)
        if unknown:
            raise ConfigError(f"a card has no field {', '.join(sorted(unknown))}")
        changed = msgspec.structs.replace(self._card(card), **fields)
        cards = self._description.cards
        self._change(cards=(*cards[:card], changed, *cards[card + 1 :]))

    def set_used(self, card: int, mib: int | None) -> None:
        """Memory in use; None is the sum of the card's processes."""
        self.set(card, used_mib=mib)

    def processes(self, card: int, processes: Sequence[Process]) -> None:
        """The processes on a card."""
        self.set(card, processes=tuple(processes))

    def lose(self, card: int) -> None:
        """The card falls off the bus."""
        self.set(card, lost=True)

    def restore(self, card: int) -> None:
        """The card is back."""
        self.set(card, lost=False)

    def xid(self, card: int | None, code: int) -> None:
        """An XID error; ``card`` None is one where the driver does not say which card."""
        events = self._description.events
        number = events[-1].number + 1 if events else 1
        event = Event(number, code, None if card is None else self.uuid(card))
        self._change(events=(*events, event)[-MAX_EVENTS:])

    def hang(self) -> None:
        """Every call of NVML, also one that waits for an event, does not come back until ``release``."""
        self._change(hang=True)

    def release(self) -> None:
        """Calls that hang go on."""
        self._change(hang=False)

    def fail(self, function: str, code: int, card: int | None = None) -> None:
        """From here on that function answers with that NVML error, on one card or on all."""
        others = [f for f in self._description.failures if (f.function, f.card) != (function, card)]
        self._change(failures=(*others, Failure(function, code, card)))

    def heal(self, function: str | None = None) -> None:
        """Take back what ``fail`` did, of one function or of all."""
        left = [f for f in self._description.failures if function not in (None, f.function)]
        self._change(failures=tuple(left))

    def _card(self, position: int) -> Card:
        cards = self._description.cards
        if not 0 <= position < len(cards):
            raise ConfigError(f"the stub NVML has no card {position}: it has {len(cards)}")
        return cards[position]

    def _completed(self, cards: Sequence[Card]) -> tuple[Card, ...]:
        return tuple(
            render.completed(card, position, str(self.folder)) for position, card in enumerate(cards)
        )

    def _change(self, **fields: Any) -> None:
        self._write(msgspec.structs.replace(self._description, **fields))

    def _write(self, description: Description) -> None:
        self._description = checked(description)
        self.folder.mkdir(parents=True, exist_ok=True)
        for card in self._description.cards:
            self._write_numa(card)
        _replace(self.folder / _DESCRIPTION, msgspec.json.encode(self._description))
        _replace(self.state, render.state(self._description).encode())

    def _write_numa(self, card: Card) -> None:
        node = self.sysfs / "bus" / "pci" / "devices" / render.sysfs_name(card) / "numa_node"
        node.parent.mkdir(parents=True, exist_ok=True)
        if card.numa is None:
            node.unlink(missing_ok=True)
        else:
            node.write_text(f"{card.numa}\n")


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole; each version has a later time than the one before, which readers rely on."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    later = max(time.time_ns(), before + 1)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    os.utime(fresh, ns=(later, later))
    fresh.replace(path)
