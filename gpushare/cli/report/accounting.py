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
from itertools import starmap
from operator import add
from typing import Final, NamedTuple

from gpushare.overview.objects import PodOwner

PARTS: Final = 1000
"""Amounts are rounded to this part of an hour."""
UNKNOWN: Final = PodOwner("", "(unknown)")
"""The workload of pods that are gone and of which no one has recorded it."""
_GIB: Final = 2**30
_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Span:
    """The time of a report: ``steps`` steps of ``step_s`` seconds until ``end``, in seconds since 1970."""

    end: float
    step_s: int
    steps: int

    @property
    def start(self) -> float:
        """When it begins."""
        return self.end - self.step_s * self.steps

    @property
    def text(self) -> str:
        """As PromQL writes a subquery."""
        return f"[{self.step_s * self.steps}s:{self.step_s}s]"


class Hours(NamedTuple):
    """Four amounts, in hours."""

    allocated_gpu: Fraction = Fraction(0)
    used_gpu: Fraction = Fraction(0)
    allocated_gib: Fraction = Fraction(0)
    used_gib: Fraction = Fraction(0)


class Rounded(NamedTuple):
    """The same in whole thousandths of an hour."""

    allocated_gpu: int
    used_gpu: int
    allocated_gib: int
    used_gib: int


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
    rounded = list(starmap(Rounded, zip(*map(apportioned, zip(*amounts, strict=True)), strict=True)))
    rows = tuple(WorkloadHours(*key, hours) for key, hours in zip(keys, rounded, strict=False))
    total = Rounded(*map(sum, zip(*rounded, strict=True))) if rounded else Rounded(0, 0, 0, 0)
    return Account(rows, rounded[-1] if whole else None, total, _gaps(facts.gpus, span))


def _plus(first: Hours, second: Hours) -> Hours:
    return Hours(*map(add, first, second))


def _hours(share: Share, gpu: GpuSums, step_s: int) -> Hours:
    step = Fraction(step_s, _HOUR_S)
    return Hours(
        share.allocated * gpu.points / gpu.memory * step,
        share.utilization * step,
        share.allocated / _GIB * step,
        share.used / _GIB * step,
    )


def _remainder(amounts: Sequence[Hours], gpus: Iterable[GpuSums], step_s: int) -> Hours:
    """What is left of the GPUs. Processes outside of containers have no SM utilization."""
    step = Fraction(step_s, _HOUR_S)
    left = Hours()
    for gpu in gpus:
        left = _plus(
            left, Hours(gpu.points * step, Fraction(0), gpu.memory / _GIB * step, gpu.used / _GIB * step)
        )
    taken = reduce(_plus, amounts, Hours())
    return Hours(
        left.allocated_gpu - taken.allocated_gpu,
        Fraction(0),
        left.allocated_gib - taken.allocated_gib,
        left.used_gib - taken.used_gib,
    )


def apportioned(amounts: Sequence[Fraction]) -> list[int]:
    """Amounts in whole thousandths whose sum is the rounded sum; each is less than one thousandth off."""
    exact = [amount * PARTS for amount in amounts]
    floors = [each.numerator // each.denominator for each in exact]
    missing = round(sum(exact, Fraction(0))) - sum(floors)
    largest = sorted(range(len(exact)), key=lambda i: (floors[i] - exact[i], i))
    for i in largest[:missing]:
        floors[i] += 1
    return floors


def _gaps(gpus: Mapping[GpuKey, GpuSums], span: Span) -> tuple[Gap, ...]:
    missing = {gpu: span.steps - sums.points for gpu, sums in sorted(gpus.items())}
    return tuple(Gap(gpu, Fraction(n * span.step_s, _HOUR_S)) for gpu, n in missing.items() if n > 0)
