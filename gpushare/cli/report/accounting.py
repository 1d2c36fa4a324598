"""What each workload had of the GPUs, and for how long. Pure, and exact: all sums are fractions.

The time is divided into n steps of s seconds, and the value at each step counts for all of it. For a
container on a GPU of C bytes, with a bytes allocated, u bytes used and an SM utilization of m at each step:

- allocated GiB-hours = Σ a ÷ 2^30 × s ÷ 3600
- used GiB-hours = Σ u ÷ 2^30 × s ÷ 3600
- allocated GPU-hours = Σ a ÷ mean of C × s ÷ 3600
- used GPU-hours = Σ m × s ÷ 3600

The totals of the cluster are those of its GPUs: Σ C, Σ of the used memory of GPUs, and the hours with data.
What the GPUs had and no container did is the remainder: unallocated memory, and memory used outside of
containers. Rows and remainder are rounded together to 1/1000 hour, so that they add up to the total exactly.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Final, NamedTuple

from gpushare.overview.hours import GIB, HOUR_S, Hours, Rounded, Span, rounded
from gpushare.overview.objects import PodOwner

UNKNOWN: Final = PodOwner("", "(unknown)")
"""The workload of pods that are gone and of which no one has recorded it."""


class GpuKey(NamedTuple):
    """A GPU of a node."""

    node: str
    card: str
    uuid: str


class GpuSums(NamedTuple):
    """Sums over the steps with data, in bytes, and the number of these steps."""

    memory: Fraction
    used: Fraction
    points: int


class Share(NamedTuple):
    """A container on a GPU; sums over the steps, in bytes and in units of a GPU."""

    namespace: str
    pod: str
    gpu: GpuKey
    allocated: Fraction
    used: Fraction
    utilization: Fraction


@dataclass(frozen=True, slots=True)
class UsageFacts:
    """What is known about the time; ``notes`` are limits of it. Every GPU of a share is in ``gpus``.

    ``owners`` are by namespace and pod.
    """

    gpus: Mapping[GpuKey, GpuSums]
    shares: list[Share]
    owners: Mapping[tuple[str, str], PodOwner]
    notes: list[str] = field(default_factory=list)


class WorkloadHours(NamedTuple):
    """One workload."""

    namespace: str
    owner: PodOwner
    hours: Rounded


class Gap(NamedTuple):
    """Hours of the time without data of a GPU."""

    gpu: GpuKey
    hours: Fraction


@dataclass(frozen=True, slots=True)
class Account:
    """Rows and remainder add up to the total. ``remainder`` is None for a report of one namespace."""

    rows: tuple[WorkloadHours, ...]
    remainder: Rounded | None
    total: Rounded
    gaps: tuple[Gap, ...]


def account(facts: UsageFacts, span: Span, *, whole: bool) -> Account:
    """The account of the cluster (``whole``), or of the namespaces of the shares only."""
    by_owner: dict[tuple[str, PodOwner], Hours] = defaultdict(Hours)
    for share in facts.shares:
        key = (share.namespace, facts.owners.get((share.namespace, share.pod), UNKNOWN))
        by_owner[key] = _plus(by_owner[key], _hours(share, facts.gpus[share.gpu], span.step_s))
    keys = sorted(by_owner)
    amounts = [by_owner[key] for key in keys]
    if whole:
        amounts.append(_remainder(amounts, facts.gpus.values(), span.step_s))
    found, total = rounded(amounts)
    rows = tuple(WorkloadHours(*key, hours) for key, hours in zip(keys, found, strict=False))
    return Account(rows, found[-1] if whole else None, total, _gaps(facts.gpus, span))


def _plus(first: Hours, second: Hours) -> Hours:
    return Hours(*map(add, first, second))


def _hours(share: Share, gpu: GpuSums, step_s: int) -> Hours:
    step = Fraction(step_s, HOUR_S)
    return Hours(
        share.allocated * gpu.points / gpu.memory * step,
        share.utilization * step,
        share.allocated / GIB * step,
        share.used / GIB * step,
    )


def _remainder(amounts: Sequence[Hours], gpus: Iterable[GpuSums], step_s: int) -> Hours:
    """What is left of the GPUs. Processes outside of containers have no SM utilization."""
    step = Fraction(step_s, HOUR_S)
    left = Hours()
    for gpu in gpus:
        left = _plus(
            left, Hours(gpu.points * step, Fraction(0), gpu.memory / GIB * step, gpu.used / GIB * step)
        )
    taken = reduce(_plus, amounts, Hours())
    return Hours(
        left.allocated_gpu - taken.allocated_gpu,
        Fraction(0),
        left.allocated_gib - taken.allocated_gib,
        left.used_gib - taken.used_gib,
    )


def _gaps(gpus: Mapping[GpuKey, GpuSums], span: Span) -> tuple[Gap, ...]:
    missing = {gpu: span.steps - sums.points for gpu, sums in sorted(gpus.items())}
    return tuple(Gap(gpu, Fraction(n * span.step_s, HOUR_S)) for gpu, n in missing.items() if n > 0)
