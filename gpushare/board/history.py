"""The last hour of the whole cluster: a point every ten seconds, kept by the process of the board. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpushare.board.usage import Live, total
from gpushare.overview.memory_units import NodeUnit, unit_of
from gpushare.overview.node_view import NodeView

INTERVAL_S: Final = 10.0
KEPT_S: Final = 3600.0
_MIB: Final = {NodeUnit.GIB: 1024, NodeUnit.MIB: 1}


@dataclass(frozen=True, slots=True)
class Point:
    """Ratios from 0 to 1; None is unknown. ``measured`` is the number of nodes with a report."""

    at: float
    allocated: float | None
    used: float | None
    measured: int
    sharing: int


History = tuple[Point, ...]


def point(at: float, nodes: Sequence[NodeView], live: Live, *, lost: bool) -> Point:
    """The cluster now. ``lost`` is whether ``nodes`` are of an earlier time.

    ``used`` is the part of the memory of the measured GPUs, also if some nodes are not measured.
    """
    shared = [node for node in nodes if node.shared]
    reports = [usage for node in shared if (usage := live.now(node.name))]
    gpus = [gpu for usage in reports for gpu in usage.gpus.values()]
    used, memory = total([gpu.used_bytes for gpu in gpus]), total([gpu.memory_bytes for gpu in gpus])
    return Point(
        at,
        None if lost else allocated_ratio(shared),
        used / memory if used is not None and memory else None,
        len(reports),
        len(shared),
    )


def allocated_ratio(nodes: Sequence[NodeView]) -> float | None:
    """The part of all units that is allocated, over nodes with different units; None without units."""
    known = [(node, _MIB[unit]) for node in nodes if (unit := unit_of(node)) in _MIB]
    all_mib = sum(node.total * mib for node, mib in known)
    return sum(node.used * mib for node, mib in known) / all_mib if all_mib else None


def appended(history: History, new: Point) -> History:
    """With the point if the last one is old enough; without those older than an hour."""
    if history and 0 <= new.at - history[-1].at < INTERVAL_S:
        return history
    return (*(each for each in history if new.at - KEPT_S <= each.at <= new.at), new)
