"""Output of ``kubectl inspect gpushare``, byte for byte as the Aliyun tool prints it. Pure.

If nodes have different units, the Aliyun tool shows the wrong unit for some; here each amount then has its
unit. ``wide`` has another form, with one line per GPU.
"""

from collections.abc import Sequence
from typing import Final

from gpushare.cli.inspect.wide import summary as per_gpu
from gpushare.cli.lib.node_text import card_cells, card_indices, dashes, node_blocks
from gpushare.cli.lib.tabwriter import align
from gpushare.overview.memory_units import NodeUnit, common_unit, label, unit_of, unit_sums
from gpushare.overview.node_view import NodeView

_CLUSTER: Final = "Allocated/Total GPU Memory In Cluster:"


def summary(nodes: Sequence[NodeView], *, wide: bool = False) -> str:
    """One line per sharing node, then the cluster."""
    if wide:
        return per_gpu(nodes)
    common = common_unit(nodes)
    indices = card_indices(nodes)
    pending = any(node.pending for node in nodes if node.shared)
    header = [
        *("NAME", "IPADDRESS"),
        *(f"GPU{index}(Allocated/Total)" for index in indices),
        *(["PENDING(Allocated)"] if pending else []),
        "GPU Memory" if common is None else f"GPU Memory({common})",
    ]
    rows = [
        [
            *(node.name, node.address),
            *card_cells(node, indices),
            *([str(node.pending or "")] if pending else []),
            f"{node.used}/{node.total}{label(unit_of(node), common)}",
        ]
        for node in nodes
        if node.shared
    ]
    lines = ["\t".join(cells) for cells in (header, *rows)]
    rule = dashes(lines[1:2], 20) if rows else ""
    return align("\n".join([*lines, rule, _CLUSTER, *_totals(nodes, common), ""]))


def details(nodes: Sequence[NodeView], *, wide: bool = False) -> str:
    """One block per sharing node, then the cluster."""
    common = common_unit(nodes)
    totals = [f"{_CLUSTER}\t{total}" for total in _totals(nodes, common)]
    return align("\n".join([*node_blocks(nodes, common, pending=True, wide=wide), "", "", *totals, ""]))


def _totals(nodes: Sequence[NodeView], common: NodeUnit | None) -> list[str]:
    sums = unit_sums(nodes, common, lambda node: node.used)
    return [f"{total.text(label(total.unit, common))}\t" for total in sums]
