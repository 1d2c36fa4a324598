"""Output of ``inspect -o wide``: one line per GPU, however many GPUs a node has. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from gpushare.cli.lib.node_text import UNKNOWN
from gpushare.cli.lib.tabwriter import align
from gpushare.cli.lib.text_table import ABSENT
from gpushare.model.cards import Card
from gpushare.overview.memory_units import unit_of
from gpushare.overview.node_view import NodeView, printable

_HEADER: Final = (
    *("NAME", "IPADDRESS", "GPU", "MODEL", "HEALTHY", "ALLOCATED", "FREE", "TOTAL"),
    *("MODE", "PLACEMENT"),
)


def summary(nodes: Sequence[NodeView]) -> str:
    """One line per GPU of each sharing node; units without a known GPU have a line of their own."""
    rows = [row for node in nodes if node.shared for row in _rows(node)]
    return align("\n".join("\t".join(cells) for cells in (_HEADER, *rows))) + "\n"


def _rows(node: NodeView) -> Iterator[tuple[str, ...]]:
    unit = unit_of(node).value or "units"
    for card in node.cards:
        used = node.used_on(card.index)
        amounts = [f"{each} {unit}" for each in (used, card.units - used, card.units)]
        yield (
            *(node.name, node.address, str(card.index), printable(card.model) or UNKNOWN),
            *(_health(node, card), *amounts, node.mode, node.policy),
        )
    if node.pending or not node.cards:
        total = ABSENT if node.cards else f"{node.total} {unit}"
        amounts = [f"{node.pending} {unit}", ABSENT, total]
        yield (node.name, node.address, "pending", ABSENT, ABSENT, *amounts, node.mode, node.policy)


def _health(node: NodeView, card: Card) -> str:
    if not node.described:
        return UNKNOWN
    return "no" if card.faulty else "yes"
