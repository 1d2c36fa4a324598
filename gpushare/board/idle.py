"""Memory that is allocated and not used, by workload, added up since the board was started. Pure.

Idle is allocated minus used of each container on each GPU, at least 0. Between two reports it is their mean;
a longer gap counts as time without data, not as idle and not as used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.board.usage import ContainerKey, Live

_MAX_GAP_S: Final = 90.0
"""A few rounds of the largest cluster."""
Workload = tuple[str, str]
"""Namespace and owner, such as ``("ml", "deployment/web")``."""
Owners = Mapping[tuple[str, str], str]
"""Owners by namespace and pod, of the pods that exist."""


@dataclass(frozen=True, slots=True)
class Sum:
    """Byte-seconds that were idle, and container-seconds without data."""

    idle: float = 0.0
    unknown_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Idle:
    """Sums by workload; ``last`` is the time and idle bytes of each container's last report."""

    sums: Mapping[Workload, Sum] = field(default_factory=dict)
    last: Mapping[ContainerKey, tuple[float, float]] = field(default_factory=dict)
    at: float | None = None


def observed(idle: Idle, live: Live, owners: Owners) -> Idle:
    """``idle`` after the last round; the same if it has been counted."""
    if live.asked_at is None or live.asked_at == idle.at:
        return idle
    sums = dict(idle.sums)
    last = {key: each for key, each in idle.last.items() if key[:2] in owners}
    for key, amount in _idle_now(live).items():
        if owner := owners.get(key[:2]):
            workload = (key[0], owner)
            before = idle.last.get(key, (live.asked_at, amount))
            sums[workload] = _added(sums.get(workload, Sum()), before, (live.asked_at, amount))
            last[key] = (live.asked_at, amount)
    return Idle(sums, last, live.asked_at)


def _added(to: Sum, before: tuple[float, float], now: tuple[float, float]) -> Sum:
    seconds = now[0] - before[0]
    if seconds > _MAX_GAP_S:
        return Sum(to.idle, to.unknown_s + seconds)
    return Sum(to.idle + max(0.0, seconds) * (before[1] + now[1]) / 2, to.unknown_s)


def _idle_now(live: Live) -> dict[ContainerKey, float]:
    """Idle bytes of the containers in the last round; those with an unknown number are left out."""
    current = (usage for name in live.nodes if (usage := live.now(name)))
    return {
        key: each.idle_bytes
        for usage in current
        for key, each in usage.containers.items()
        if each.idle_bytes is not None
    }


def unknown_s(idle: Idle, at: float, owners: Owners) -> dict[Workload, float]:
    """Container-seconds without data until now, including gaps that have not ended."""
    found = {workload: each.unknown_s for workload, each in idle.sums.items()}
    for key, (since, _) in idle.last.items():
        owner = owners.get(key[:2])
        if owner and at - since > _MAX_GAP_S:
            found[key[0], owner] = found.get((key[0], owner), 0.0) + at - since
    return found
