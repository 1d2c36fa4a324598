"""The right size of a GPU memory request, from the peak and the refusals of its containers. Pure.

The rule, on each GPU and in whole units:

- need = the larger of the peak that the isolation library counted and the usage that the driver reports;
- suggestion = the fewest units that hold need × (1 + margin);
- after refusals, need is at least the limit that admits each refused request, as the library recorded it, or
  the limit of the container if all were larger than the GPU;
- no suggestion is larger than the GPU, if its size is known;
- a present usage alone is not a peak, and without a peak there is no suggestion.

The replicas of a workload get the largest suggestion among them, which holds the present usage of each.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpushare.overview.memory_units import NodeUnit, unit_of_amount
from gpushare.overview.objects import PodOwner


class Basis(StrEnum):
    """What a suggestion is based on."""

    SINCE_START = "peak since container start"
    WINDOW = "peak of the window"
    REFUSED = "refused request"
    NOW = "now only"
    NO_DATA = "no data"


class Comparison(StrEnum):
    """What the suggestion is, compared with the request."""

    RAISE = "raise"
    LOWER = "lower"
    KEEP = "keep"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Observed:
    """One container of a pod: its request in units on each of its GPUs, and the largest of its GPUs' values.

    Amounts are in bytes; None is unknown. ``granted`` is the allocation for ``units``, ``needed`` the limit
    that admits each refused request, and ``gpu`` the memory of the GPU.
    """

    namespace: str
    owner: PodOwner
    container: str
    units: int
    gpus: int = 1
    granted: int | None = None
    limit: int | None = None
    peak: int | None = None
    used: int | None = None
    refusals: int | None = None
    needed: int | None = None
    gpu: int | None = None

    @property
    def unit(self) -> NodeUnit:
        """The unit of its node."""
        return unit_of_amount(self.units, self.granted) if self.granted else NodeUnit.UNKNOWN


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One container of a workload. Units are the sum over its GPUs.

    ``silent`` pods have no data, ``unmeasured`` ones no suggestion of their own.
    """

    namespace: str
    owner: PodOwner
    container: str
    unit: NodeUnit
    pods: int
    silent: int
    unmeasured: int
    request: int
    limit: int | None
    peak: int | None
    used: int | None
    refusals: int | None
    needed: int | None
    basis: Basis
    suggestion: int | None

    @property
    def verdict(self) -> Comparison:
        """Whether the request is too small, too large or right."""
        if self.suggestion is None:
            return Comparison.NONE
        if self.suggestion == self.request:
            return Comparison.KEEP
        return Comparison.RAISE if self.suggestion > self.request else Comparison.LOWER


def suggested_units(observed: Observed, margin_percent: int) -> int | None:
    """The units on each GPU by the rule of the module; None without a peak or without a known unit."""
    if observed.peak is None or not observed.granted:
        return None
    need = max(observed.peak, observed.used or 0)
    if observed.refusals:
        need = max(need, observed.needed or observed.limit or observed.granted)
    fewest = _fewest(need, observed.units, observed.granted, margin_percent)
    # A refused allocation is never an argument for the same request.
    units = max(fewest, observed.units + 1) if observed.refusals else fewest
    return min(units, _units_of(observed.gpu, observed.units, observed.granted)) if observed.gpu else units


def _in_use(observed: Observed, margin_percent: int) -> int:
    """The units on each GPU that hold the present usage, below which no replica's peak lowers the request."""
    if not observed.used or not observed.granted:
        return 0
    return _fewest(observed.used, observed.units, observed.granted, margin_percent)


def _fewest(need: int, units: int, granted: int, margin_percent: int) -> int:
    return max(1, _ceiling(_ceiling(need * (100 + margin_percent), 100) * units, granted))


def _units_of(gpu: int, units: int, granted: int) -> int:
    """The units of a whole GPU; its allocations are rounded down."""
    return max(units, gpu * units // granted)


def _ceiling(amount: int, divisor: int) -> int:
    return -(-amount // divisor)


def recommendations(observed: Iterable[Observed], margin_percent: int, basis: Basis) -> list[Recommendation]:
    """One for each container of each workload, request and unit, sorted. ``basis`` is that of the peaks."""
    groups: dict[tuple[str, PodOwner, str, int, int, NodeUnit], list[Observed]] = defaultdict(list)
    for each in observed:
        key = (each.namespace, each.owner, each.container, each.units, each.gpus, each.unit)
        groups[key].append(each)
    return [_of_group(groups[key], margin_percent, basis) for key in sorted(groups)]


def selected(found: Iterable[Recommendation], workloads: Collection[str]) -> list[Recommendation]:
    """Those of these workloads, such as ``deployment/web``; of all without one."""
    return [each for each in found if not workloads or str(each.owner) in workloads]


def _of_group(group: list[Observed], margin_percent: int, basis: Basis) -> Recommendation:
    first = group[0]
    suggestions = [each for member in group if (each := suggested_units(member, margin_percent))]
    floors = [_in_use(member, margin_percent) for member in group if member.peak is None]
    silent = sum(member.peak is None and member.used is None for member in group)
    needed = _largest(member.needed for member in group if member.refusals)
    if not suggestions:
        basis = Basis.NO_DATA if silent == len(group) else Basis.NOW
    elif needed and needed >= max(member.peak or 0 for member in group):
        basis = Basis.REFUSED
    return Recommendation(
        first.namespace,
        first.owner,
        first.container,
        first.unit,
        len(group),
        silent,
        len(group) - len(suggestions),
        first.units * first.gpus,
        _largest(member.limit for member in group),
        _largest(member.peak for member in group),
        _largest(member.used for member in group),
        sum(known) if (known := [m.refusals for m in group if m.refusals is not None]) else None,
        needed,
        basis,
        max([*suggestions, *floors]) * first.gpus if suggestions else None,
    )


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
