"""Which unit a node counts in, and sums over nodes that may count in different ones.

Nothing on a node of the original plugin names its unit; the tools guess it from the size of a card,
as the original does. A described card tells: its size in MiB is known.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from gpushare.cli.view import NodeView
from gpushare.model.cards import Card

_MOST_GIB: Final = 100
_UNITS_PER_CARD_GIB: Final = 32
"""A unit below 1/32 GiB is a MiB: half way, by ratio, between the two units that exist."""


class NodeUnit(StrEnum):
    """What one unit of memory is; ``UNKNOWN`` where a node has units but no cards."""

    GIB = "GiB"
    MIB = "MiB"
    UNKNOWN = ""


class Usage(NamedTuple):
    """Used and total units of nodes that count in one unit."""

    unit: NodeUnit
    used: int
    total: int

    def text(self, label: str) -> str:
        """Such as ``12/14 (GiB) (85%)``, with the label between."""
        return f"{self.used}/{self.total}{label} ({percent(self.used, self.total)}%)"


def unit_of(node: NodeView) -> NodeUnit:
    """The unit of one node."""
    described = [card for card in node.cards if card.mib > 0]
    if described:
        return NodeUnit.MIB if any(map(_counts_mib, described)) else NodeUnit.GIB
    if not node.cards:
        return NodeUnit.UNKNOWN
    return NodeUnit.MIB if node.total // len(node.cards) > _MOST_GIB else NodeUnit.GIB


def _counts_mib(card: Card) -> bool:
    return card.units * _UNITS_PER_CARD_GIB > card.mib


def common_unit(nodes: Iterable[NodeView]) -> NodeUnit | None:
    """The unit of all sharing nodes, None where they differ; unknown ones follow the others."""
    units = {unit_of(node) for node in nodes if node.shared} - {NodeUnit.UNKNOWN}
    if len(units) > 1:
        return None
    return units.pop() if units else NodeUnit.UNKNOWN


def label(unit: NodeUnit, common: NodeUnit | None) -> str:
    """What tells amounts apart where nodes count differently; nothing where they do not."""
    return f" ({unit or '?'})" if common is None else ""


def usages(
    nodes: Iterable[NodeView], common: NodeUnit | None, used_of: Callable[[NodeView], int]
) -> list[Usage]:
    """One sum per unit; a single one, perhaps of nothing, where the unit is common."""
    shared = [node for node in nodes if node.shared]
    if common is not None:
        return [Usage(common, sum(map(used_of, shared)), sum(node.total for node in shared))]
    by_unit = {unit: [node for node in shared if unit_of(node) is unit] for unit in NodeUnit}
    return [
        Usage(unit, sum(map(used_of, group)), sum(node.total for node in group))
        for unit, group in by_unit.items()
        if group
    ]


def percent(used: int, total: int) -> int:
    """Truncated as the original's float arithmetic has it: 29 of 100 are 28 percent."""
    return int(used / total * 100) if total > 0 else 0
