"""The prices of launches, learned from samples of a GPU: how much GPU time each kind of launch takes. Pure.

Sampling the GPU and writing the prices into the region (``gpushare.isolation.region.price_write``) do not
belong here.

The library takes tokens for each launch: its work times the price of its kind, so that a token is a
nanosecond of GPU time (``gpushare/isolation/native/pace.h``). A container gets its compute share if the
prices are right. A sample has the GPU time of a second and the work of each kind, so it gives one ratio of
GPU time to tokens, by which the prices of this work change:

- A kind without a price gets the GPU time that the others do not explain, once that is more than noise.
- A ratio below 1 lowers prices at once. A kernel that waits for another GPU, as a collective does, counts as
  busy: waiting only adds to the GPU time, so the lowest ratios are the closest.
- A ratio above 1 raises prices only while other programs use the GPU, and in the first samples of a kind.
- GPUs of a container that did the same work follow the lowest of their ratios: only the GPU that arrives
  last does not wait.
- Prices rise only to a multiple of the lowest estimate of the last minute, for ranks in other containers.

While other programs are busy on the GPU too, samples are coarse: on an H200 with driver 580, the part of a
program in a second was a multiple of a seventh or an eighth, so that 25 % were reported as 0 to 74. Then the
ratio is that of several samples, which weigh less with age.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

_SECOND: Final = 1_000_000_000
_COARSE: Final = 200
"""NVML reports whole percents: utilisation reported as 0 may be up to 0.5 percent."""
_KEPT: Final = 0.8
"""The weight of earlier samples at each sample on a contended GPU: about five samples count."""
_KEPT_ALONE: Final = 0.5
"""The same without other programs: launches at the end of a sample run in the next one."""
_UNEVEN_S: Final = 0.04
"""GPU time of launches at the end of a sample that run in the next one."""
_LONGER: Final = 4
"""Work that takes so many times as long as before shows a change: coarse samples rarely do."""
_LARGEST_STEP: Final = 2
"""The most by which a sample changes prices."""
_YOUNG: Final = 10
"""In so many samples after a new kind got its price, prices may rise: work is launched before it runs."""
_LATEST: Final = 10
"""After so many samples a new kind gets a price, however little GPU time it took."""
_MINUTE: Final = 60
"""Samples whose lowest estimate bounds the prices."""
_ABOVE_LOWEST: Final = 1.25
"""How far above that estimate prices rise."""
_MOMENTS: Final = 7
"""At so many moments of a second NVML sees which program uses a contended GPU."""
_LEAST_PART: Final = 0.1
"""A new kind costs at least this part of the mean: a price of 0 would never be corrected."""


@dataclass(frozen=True, slots=True)
class WorkSample:
    """Use of one GPU by a container since the previous sample, or in several samples.

    ``busy_ns`` is the GPU time of all its processes and ``work`` what they launched, both within
    ``elapsed_ns``. The numbers of a sum of samples are not whole.
    """

    elapsed_ns: float
    busy_ns: float
    work: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Learned:
    """What the samples of a container on one GPU have shown.

    ``prices`` are ns of GPU time for a unit of work, by kind. ``total`` is the sum of the samples that count
    for the next ratio, ``last`` the last one. ``new`` is the sum of the ``new_count`` samples with kinds that
    have no price yet, and ``age`` the number of samples since the last kind got one. ``scale`` is the product
    of all changes, and ``estimates`` what it would be by each of the last samples.
    """

    prices: Mapping[int, float] = field(default_factory=dict)
    total: WorkSample | None = None
    last: WorkSample | None = None
    new: WorkSample | None = None
    new_count: int = 0
    age: int = 0
    scale: float = 1.0
    estimates: tuple[float, ...] = ()

    @property
    def ratio(self) -> float:
        """GPU time by the driver to GPU time by the prices, in the samples that count; 1 without work.

        While a new kind has no price yet, what is left belongs to it.
        """
        cost = cost_ns(self.prices, self.total.work) if self.total else 0
        if self.total is None or not cost:
            return 1.0
        ratio = _busy_ns(self.total) / cost
        return min(ratio, 1.0) if self.new else ratio


def cost_ns(prices: Mapping[int, float], work: Mapping[int, float]) -> float:
    """The GPU time of work by these prices; kinds without a price cost nothing."""
    return sum(prices.get(kind, 0) * amount for kind, amount in work.items())


def with_sample(learned: Learned, sample: WorkSample, *, contended: bool) -> Learned:
    """What is known after a sample, before the prices follow its ratio.

    ``contended`` is whether other programs use the GPU too. The GPU time of a sample without work belongs to
    the launches before it.
    """
    if not sample.work:
        # So what was estimated without this time is too low.
        total = _sum(sample, learned.total) if learned.total else None
        return replace(learned, total=total, estimates=())
    total = _followed(learned, sample, _KEPT if contended else _KEPT_ALONE)
    seen = replace(learned, total=total, last=sample, age=learned.age + 1)
    if sample.work.keys() <= learned.prices.keys():
        return seen
    return _with_new_kinds(seen, sample, contended=contended)


def followed_ratio(learned: Learned, ratio: float, *, contended: bool) -> Learned:
    """The prices after a ratio: that of this GPU, or the lowest of those with the same work."""
    estimate = learned.scale * _highest_ratio(learned, contended=contended)
    seen = replace(learned, estimates=(*learned.estimates, estimate)[-_MINUTE:])
    # At age 0 the sample has just given a price to a new kind.
    step = _step(seen, ratio, contended=contended) if learned.age else 1.0
    return replace(seen, prices=_scaled(seen, step), scale=seen.scale * step)


def _step(learned: Learned, ratio: float, *, contended: bool) -> float:
    """The factor for the prices. They follow coarse samples, and what they show first, by half."""
    if ratio <= 1:
        return max(math.sqrt(ratio) if contended else ratio, 1 / _LARGEST_STEP)
    if not contended and learned.age > _YOUNG:
        return 1.0
    most = max(1.0, _ABOVE_LOWEST * min(learned.estimates) / learned.scale)
    return min(math.sqrt(ratio), _LARGEST_STEP, most)


def _highest_ratio(learned: Learned, *, contended: bool) -> float:
    """The ratio with what may be missing in coarse samples."""
    cost = cost_ns(learned.prices, learned.total.work) if learned.total else 0
    if learned.total is None or not cost:
        return learned.ratio
    return learned.ratio + _noise_ns(learned.total, contended=contended) / cost


def is_same_work(one: Learned, other: Learned) -> bool:
    """Whether two GPUs did the same work in the samples that count, as ranks of one program do."""
    if one.total is None or other.total is None:
        return False
    first, second = one.total.work, other.total.work
    differing = {kind: abs(first.get(kind, 0) - second.get(kind, 0)) for kind in {*first, *second}}
    prices = {**other.prices, **one.prices}
    most = max(cost_ns(prices, first), cost_ns(prices, second))
    return cost_ns(prices, differing) <= most / _LONGER


def _with_new_kinds(learned: Learned, sample: WorkSample, *, contended: bool) -> Learned:
    """The samples with new kinds, and their prices once the GPU time that they take is more than noise.

    The price is the GPU time that the other kinds leave, in equal parts of work.
    """
    new = _sum(sample, learned.new) if learned.new else sample
    count = learned.new_count + 1
    left_ns = _busy_ns(new) - cost_ns(learned.prices, new.work)
    noise_ns = _noise_ns(new, contended=contended) if learned.prices else 0.0
    if left_ns < noise_ns and count < _LATEST:
        return replace(learned, new=new, new_count=count)
    # The sample that exceeds the noise is one of the highest.
    left_ns -= noise_ns if contended else noise_ns / 2
    kinds = [kind for kind in new.work if kind not in learned.prices]
    amount = sum(new.work[kind] for kind in kinds)
    price = max(left_ns, _LEAST_PART * _busy_ns(new) * amount / sum(new.work.values())) / amount
    prices = {**learned.prices, **dict.fromkeys(kinds, price)}
    return replace(learned, prices=prices, new=None, new_count=0, age=0)


def _busy_ns(total: WorkSample) -> float:
    return max(total.busy_ns, total.elapsed_ns / _COARSE)


def _noise_ns(total: WorkSample, *, contended: bool) -> float:
    """How much GPU time may be missing in samples: twice the standard deviation.

    Work is launched in one sample and runs in the next. On a contended GPU the number of moments is binomial.
    """
    if not contended:
        return _UNEVEN_S * _SECOND + total.elapsed_ns / _COARSE
    part = min(1.0, total.busy_ns / total.elapsed_ns)
    moments = _MOMENTS * total.elapsed_ns / _SECOND
    return 2 * total.elapsed_ns * math.sqrt(part * (1 - part) / moments)


def _followed(learned: Learned, sample: WorkSample, kept: float) -> WorkSample:
    """The samples that count; earlier ones weigh ``kept`` of the later one.

    Earlier ones are dropped if their work was much cheaper than that of the last two. One sample does not
    show that: it is coarse, and its GPU time may belong to launches before it.
    """
    if learned.total is None or learned.last is None:
        return sample
    recent = _sum(sample, learned.last)
    total = _sum(sample, learned.total, kept)
    longer = replace(learned, total=recent).ratio > _LONGER * learned.ratio
    return recent if longer else total


def _sum(sample: WorkSample, earlier: WorkSample, weight: float = 1) -> WorkSample:
    work = {
        kind: sample.work.get(kind, 0) + weight * earlier.work.get(kind, 0)
        for kind in {*sample.work, *earlier.work}
    }
    return WorkSample(
        sample.elapsed_ns + weight * earlier.elapsed_ns, sample.busy_ns + weight * earlier.busy_ns, work
    )


def _scaled(learned: Learned, step: float) -> Mapping[int, float]:
    """The prices times ``step``; those with a smaller part of the last sample's cost change less."""
    prices, work = learned.prices, learned.last.work if learned.last else {}
    costs = {kind: prices[kind] * amount for kind, amount in work.items() if kind in prices}
    most = max(costs.values(), default=0.0)
    return {**prices, **{kind: prices[kind] * step ** (cost / most) for kind, cost in costs.items() if most}}
