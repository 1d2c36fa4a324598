"""The memory unit of a node (GiB or MiB), and sums over nodes with different units.

A node of the Aliyun plugin does not publish its unit; it is guessed from the units of one GPU, as the Aliyun
tools do. For a described GPU the size in MiB is known, so its unit is certain.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from gpushare.model.cards import Card
from gpushare.overview.node_view import NodeView

_MOST_GIB: Final = 100
_UNITS_PER_GIB: Final = 32
"""A unit below 1/32 GiB is a MiB: the geometric mean of the two possible units."""
_MIB: Final = 2**20
_GIB: Final = 2**30


class NodeUnit(StrEnum):
    """The size of one unit; ``UNKNOWN`` for a node with units but without GPUs."""

    GIB = "GiB"
    MIB = "MiB"
    UNKNOWN = ""


class UnitSum(NamedTuple):
    """Used and total units of nodes with the same unit."""

    unit: NodeUnit
    used: int
    total: int

    def text(self, label: str) -> str:
        """Such as ``12/14 (GiB) (85%)`` for the label `` (GiB)``."""
        return f"{self.used}/{self.total}{label} ({percent(self.used, self.total)}%)"


def unit_of(node: NodeView) -> NodeUnit:
    """The unit of one node."""
    described = [card for card in node.cards if card.mib > 0]
    if described:
        return NodeUnit.MIB if NodeUnit.MIB in map(_unit_of_card, described) else NodeUnit.GIB
    if not node.cards:
        return NodeUnit.UNKNOWN
    return NodeUnit.MIB if node.total // len(node.cards) > _MOST_GIB else NodeUnit.GIB


def _unit_of_card(card: Card) -> NodeUnit:
    return unit_of_amount(card.units, card.mib * _MIB)


def unit_of_amount(units: int, amount: int) -> NodeUnit:
    """The unit in which an amount of bytes has so many units."""
    return NodeUnit.MIB if units * _GIB > amount * _UNITS_PER_GIB else NodeUnit.GIB


def common_unit(nodes: Iterable[NodeView]) -> NodeUnit | None:
    """The unit of all sharing nodes, None if they differ; nodes with an unknown unit are ignored."""
    units = {unit_of(node) for node in nodes if node.shared} - {NodeUnit.UNKNOWN}
    if len(units) > 1:
        return None
    return units.pop() if units else NodeUnit.UNKNOWN


def label(unit: NodeUnit, common: NodeUnit | None) -> str:
    """The suffix of an amount if nodes have different units, else empty."""
    return f" ({unit or '?'})" if common is None else ""


def unit_sums(
    nodes: Iterable[NodeView], common: NodeUnit | None, used_of: Callable[[NodeView], int]
) -> list[UnitSum]:
    """One sum per unit; exactly one, possibly zero, if all nodes have the same unit."""
    shared = [node for node in nodes if node.shared]
    if common is not None:
        return [UnitSum(common, sum(map(used_of, shared)), sum(node.total for node in shared))]
    by_unit = {unit: [node for node in shared if unit_of(node) is unit] for unit in NodeUnit}
    return [
        UnitSum(unit, sum(map(used_of, group)), sum(node.total for node in group))
        for unit, group in by_unit.items()
        if group
    ]


def percent(used: int, total: int) -> int:
    """Truncated like the float arithmetic of the Aliyun tool: 29 of 100 is 28 percent."""
    return int(used / total * 100) if total > 0 else 0
