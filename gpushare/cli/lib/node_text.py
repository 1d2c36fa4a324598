"""What ``inspect`` and ``top node -s`` print alike of nodes, byte for byte as the Aliyun tools. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gpushare.overview.memory_units import NodeUnit, label, percent, unit_of
from gpushare.overview.node_view import NodeView, PodView, printable

UNKNOWN: Final = "<unknown>"
NONE: Final = "<none>"
WIDE_HEADER: Final = ("MODE", "PLACEMENT", "HEALTHY", "GPUS")


def node_blocks(
    nodes: Sequence[NodeView], common: NodeUnit | None, *, pending: bool, wide: bool
) -> list[str]:
    """The lines of all nodes; the first node sets the length of every rule, as in the Aliyun tool."""
    lines: list[str] = []
    rule = ""
    for node in nodes:
        if node.shared:
            with_pending = pending and node.pending > 0
            rows = [
                _pod_row(pod, node, pending=with_pending) for pod in node.pods if pod.units or pod.whole_gpus
            ]
            rule = rule or dashes(rows, 10)
            lines += [*_head(node, wide=wide), _pod_header(node, pending=with_pending), *rows]
            lines += [*_foot(node, label(unit_of(node), common)), rule]
    return lines


def _head(node: NodeView, *, wide: bool) -> list[str]:
    extra = [f"{name}:\t{cell}" for name, cell in zip(WIDE_HEADER, wide_cells(node), strict=True)]
    return ["", f"NAME:\t{node.name}", f"IPADDRESS:\t{node.address}", *(extra if wide else ()), ""]


def _pod_header(node: NodeView, *, pending: bool) -> str:
    cards = [f"GPU{card.index}(Allocated)" for card in node.cards]
    return _row_with_tabs(["NAME", "NAMESPACE", *cards, *(["Pending(Allocated)"] if pending else [])])


def _pod_row(pod: PodView, node: NodeView, *, pending: bool) -> str:
    cards = [str(pod.on_card(card.index)) for card in node.cards]
    return _row_with_tabs([pod.name, pod.namespace, *cards, *([str(pod.pending)] if pending else [])])


def _foot(node: NodeView, unit: str) -> list[str]:
    return [
        f"Allocated :\t{node.used}{unit} ({percent(node.used, node.total)}%)\t",
        f"Total :\t{node.total}{unit} \t",
    ]


def _row_with_tabs(cells: list[str]) -> str:
    """A line with a tab after every cell, also the last."""
    return "".join(f"{cell}\t" for cell in cells)


def card_indices(nodes: Sequence[NodeView]) -> list[int]:
    """The GPU indices of all nodes: the columns of a summary."""
    return sorted({card.index for node in nodes for card in node.cards})


def card_cells(node: NodeView, indices: Sequence[int]) -> list[str]:
    """``used/total`` per column; ``0/0`` for a GPU that the node does not have."""
    totals = {card.index: card.units for card in node.cards}
    return [f"{node.used_on(index)}/{totals.get(index, 0)}" for index in indices]


def dashes(rows: Sequence[str], more: int) -> str:
    """A rule as long as the raw rows with their line ends, plus ``more``."""
    return "-" * (sum(len(row.encode()) + 1 for row in rows) + more)


def wide_cells(node: NodeView) -> tuple[str, ...]:
    """Cells of the wide output: mode, placement policy, healthy GPUs, GPU models."""
    if not node.shared:
        return (NONE,) * len(WIDE_HEADER)
    healthy = (
        f"{sum(not card.faulty for card in node.cards)}/{len(node.cards)}" if node.described else UNKNOWN
    )
    models = Counter(printable(card.model) or UNKNOWN for card in node.cards)
    names = ", ".join(f"{count} x {model}" for model, count in sorted(models.items()))
    return node.mode, node.policy, healthy, names or NONE
