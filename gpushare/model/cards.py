"""The GPUs of a node, and the node annotation ``gpushare.io/cards`` that lists them.

The annotation is a JSON list; ``index`` and ``units`` are required, the rest may be absent::

    [{"index": 0, "uuid": "GPU-…", "model": "Tesla T4", "mib": 15079, "units": 14,
      "numa": 0, "minor": 0, "pci": "00000000:00:07.0", "healthy": true, "whole_gpu_pods": [], "closed": "",
      "brand": 2, "fault": "", "links": "-v"}]

``whole_gpu_pods`` names the whole-GPU pods (``namespace/name``), which use the GPU through another device
plugin. Such a GPU is full. ``closed`` is why a healthy GPU takes no pods, such as ``until its MPS control
daemon is ready``. For readers that do not know these fields, such GPUs are not ``healthy``. ``brand``
is NVML's. ``fault`` is why the node agent takes a GPU for unhealthy. ``links`` has one letter for each GPU of
the machine, by its index: the link to that GPU, ``-`` for none, so that 16 GPUs take 256 letters.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from gpushare.contract import SYSTEM_NAMESPACE, UNHEALTHY_KEY, UNHEALTHY_PREFIX
from gpushare.model.card_models import is_data_centre
from gpushare.model.demand import Malformed
from gpushare.model.hardware import Link
from gpushare.model.quantity import parse_small

_LETTERS: Final = {
    Link.NVLINK: "v",
    Link.BOARD: "b",
    Link.SWITCH: "p",
    Link.SWITCHES: "q",
    Link.HOST_BRIDGE: "h",
    Link.NUMA_NODE: "n",
    Link.SYSTEM: "s",
}
_LINKS: Final = {letter: link for link, letter in _LETTERS.items()}
_NO_LINK: Final = "-"


@dataclass(frozen=True, slots=True)
class Card:
    """One physical GPU. ``units`` can be reserved; ``mib`` is its memory in MiB, 0 if unknown."""

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
    closed: str = ""
    brand: int | None = None
    fault: str = ""
    links: str = ""

    @property
    def is_listed(self) -> bool:
        """Whether it is a data-centre GPU, or its model is unknown, as on nodes of the Aliyun plugin."""
        return not self.model or is_data_centre(self.model, self.brand)

    @property
    def faulty(self) -> bool:
        """Whether it is unhealthy, and not merely closed or in use by whole-GPU pods."""
        return not (self.healthy or self.whole_gpu_pods or self.closed)


_decode_cards = msgspec.json.Decoder(tuple[Card, ...]).decode


def parse_cards(text: str) -> tuple[Card, ...] | Malformed:
    """The GPUs in index order, or the problem of the text."""
    try:
        cards = _decode_cards(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return Malformed(str(error))
    if any(card.index < 0 or card.units < 0 for card in cards):
        return Malformed("an index or a size is negative")
    if len({card.index for card in cards}) != len(cards):
        return Malformed("two GPUs have the same index")
    return tuple(sorted(cards, key=lambda card: card.index))


def format_cards(cards: tuple[Card, ...]) -> str:
    """The text of the annotation, with all fields."""
    return msgspec.json.encode(cards).decode()


def format_links(index: int, links: Mapping[tuple[int, int], Link]) -> str:
    """The links of a GPU, from those of the pairs of a machine; empty if none is known."""
    own = {sum(pair) - index: _LETTERS[link] for pair, link in links.items() if index in pair}
    return "".join(own.get(other, _NO_LINK) for other in range(max(own) + 1)) if own else ""


def link_to(links: str, index: int) -> Link | None:
    """The link of a GPU with these ``links`` to the GPU of that index; None if it is not known."""
    return _LINKS.get(links[index : index + 1])


def in_use_as_whole(card: Card) -> str:
    """Until when the GPU takes no pods because whole-GPU pods use it; empty if none does."""
    pods = card.whole_gpu_pods
    if len(pods) > 1:
        return f"until {' and '.join(pods)} are gone, which have a whole GPU"
    return f"until {pods[0]} is gone, which has a whole GPU" if pods else ""


def equal_cards(units: int, count: int) -> tuple[Card, ...]:
    """``count`` GPUs of the same size: all that a node of the Aliyun plugin publishes."""
    return tuple(Card(index, units // count) for index in range(count))


def share_mib(mib: int, units: int, of: int) -> int:
    """MiB of ``units`` on a GPU of ``mib`` MiB that has ``of`` units."""
    return mib * units // of if of else 0


def parse_indices(text: str) -> tuple[frozenset[int], tuple[str, ...]]:
    """The GPU indices of a comma-separated list, and the invalid entries.

    Spaces and empty entries are ignored.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    found = {entry: parse_small(entry) for entry in entries}
    valid = frozenset(index for index in found.values() if index is not None)
    return valid, tuple(entry for entry, index in found.items() if index is None)


def unhealthy_map(node: str) -> str:
    """The ConfigMap of a node's unhealthy GPUs, in messages."""
    return f"ConfigMap {SYSTEM_NAMESPACE}/{UNHEALTHY_PREFIX}{node}"


def unreadable_list(node: str, entries: Iterable[str]) -> str:
    """The problem of the ConfigMap of a node's unhealthy GPUs with these invalid entries."""
    invalid = ", ".join(map(repr, entries))
    return f"{unhealthy_map(node)}: {invalid} is not a GPU index; write {UNHEALTHY_KEY}: 0,2"
