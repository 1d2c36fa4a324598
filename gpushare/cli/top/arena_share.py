"""Output of ``arena top node -s`` and ``arena top node -s -d`` (v0.4.0): memory of shared GPUs.

As in arena, the summary counts units on GPUs, the details also pending units; neither has a column for
pending units.
"""

from collections.abc import Callable, Sequence
from typing import Final

from gpushare.cli.lib.node_text import (
    WIDE_HEADER,
    card_cells,
    card_indices,
    dashes,
    node_blocks,
    wide_cells,
)
from gpushare.cli.lib.tabwriter import align
from gpushare.overview.memory_units import NodeUnit, common_unit, label, unit_of, unit_sums
from gpushare.overview.node_view import NodeView

_TITLE: Final = "Allocated/Total GPU Memory In GPUShare Node:"


def summary(nodes: Sequence[NodeView], *, wide: bool = False) -> str:
    """One line per sharing node, then the cluster."""
    common = common_unit(nodes)
    indices = card_indices(nodes)
    cards = [f"GPU{index}(Allocated/Total)" for index in indices]
    header = ["NAME", "IPADDRESS", *cards, *(WIDE_HEADER if wide else ()), ""]
    rows = [_row(node, indices, common, wide=wide) for node in nodes if node.shared]
    lines = ["\t".join(cells) for cells in (header, *rows)]
    rule = dashes(lines[1:2], 20) if rows else ""
    totals = _totals(nodes, common, lambda node: node.on_cards)
    return align("\n".join([*lines, rule, _TITLE, *totals, ""]))


def details(nodes: Sequence[NodeView], *, wide: bool = False) -> str:
    """One block per sharing node, then the cluster."""
    common = common_unit(nodes)
    blocks = node_blocks(nodes, common, pending=False, wide=wide)
    totals = _totals(nodes, common, lambda node: node.used)
    return align("\n".join([*blocks, "", "", _TITLE, *totals, ""]))


def _row(node: NodeView, indices: Sequence[int], common: NodeUnit | None, *, wide: bool) -> list[str]:
    cards = [f"{cell}{label(unit_of(node), common)}" for cell in card_cells(node, indices)]
    return [node.name, node.address, *cards, *(wide_cells(node) if wide else ()), ""]


def _totals(
    nodes: Sequence[NodeView], common: NodeUnit | None, used_of: Callable[[NodeView], int]
) -> list[str]:
    sums = unit_sums(nodes, common, used_of)
    return [f"{total.text(label(total.unit, common) or f' ({total.unit})')}\t" for total in sums]
