"""The launch rate that gives a container its compute share: a pure function of one sample.

Sampling the GPU and writing the rate into the region (``gpushare.isolation.region.rate_writes``) do not
belong here.

A launch takes one token per thread (``gpushare/isolation/native/pace.h``). Tokens spent and GPU time used
give the GPU time of one token, and that time gives the rate. The rate is therefore right from the first
sample, whether the container was throttled or not, and idle samples do not change it. Each sample moves the
rate to the geometric mean of the old and the new one, because kernels change and NVML samples are coarse, and
at most doubles it: a sample that is too low opens the limit for no more than its own time.

While other programs are busy on the GPU too, samples are coarser: on an H200 with driver 580, the part of a
program in a second was a multiple of a seventh or an eighth, so that 25 % were reported as 0 to 74. Then the
rate follows several samples (``History``).
"""

import math
from dataclasses import dataclass
from typing import Final

_SECOND: Final = 1_000_000_000
_LARGEST_STEP: Final = 2
_COARSE: Final = 200
"""NVML reports whole percents: utilisation reported as 0 may be up to 0.5 percent."""
_KEPT: Final = 0.8
"""The weight of the history at each sample: about five samples count."""
_LONGER: Final = 4
"""A token that takes so many times as long as before shows other kernels: coarse samples rarely do."""


@dataclass(frozen=True, slots=True)
class LaunchSample:
    """Use of one GPU by a container since the previous sample.

    ``busy_ns`` is the GPU time of all its processes and ``spent`` the tokens that it took, both within
    ``elapsed_ns``.
    """

    elapsed_ns: int
    busy_ns: int
    spent: int


@dataclass(frozen=True, slots=True)
class History:
    """The samples of a container: their sum, in which they weigh less with age, and the last one."""

    total: LaunchSample
    last: LaunchSample


def with_history(sample: LaunchSample, history: History | None) -> History:
    """The history after a sample.

    Earlier samples are dropped if their tokens were much cheaper than those of the last two: a container
    whose kernels have become longer is limited soon. One sample does not show that: it is coarse, and its GPU
    time may belong to launches before it.
    """
    if history is None:
        return History(sample, sample)
    recent = _sum(sample, history.last)
    total = recent if _is_longer(recent, history.total) else _sum(sample, history.total, _KEPT)
    return History(total, sample)


def _sum(sample: LaunchSample, earlier: LaunchSample, weight: float = 1) -> LaunchSample:
    return LaunchSample(
        sample.elapsed_ns + round(weight * earlier.elapsed_ns),
        sample.busy_ns + round(weight * earlier.busy_ns),
        sample.spent + round(weight * earlier.spent),
    )


def _is_longer(recent: LaunchSample, total: LaunchSample) -> bool:
    """Whether a token takes much longer than it did in total."""
    return recent.spent > 0 and recent.busy_ns * total.spent > _LONGER * total.busy_ns * recent.spent


def rate(percent: int, sample: LaunchSample, previous: int) -> int:
    """Tokens per second for a compute share of ``percent``; ``previous`` is the last rate, 0 for none.

    A sample without spent tokens or without elapsed time returns the previous rate; so does one without GPU
    time if there is no rate yet. With a rate, a sample without GPU time shows only that the GPU can do what
    it did: the rate rises to at most twice that.
    """
    if sample.spent <= 0 or sample.elapsed_ns <= 0 or not (previous or sample.busy_ns):
        return previous
    busy_ns = max(sample.busy_ns, sample.elapsed_ns / _COARSE)
    fair = percent / 100 * _SECOND * sample.spent / busy_ns
    if not previous:
        return max(1, round(fair))
    return max(1, min(round(math.sqrt(fair * previous)), _highest(sample, previous)))


def _highest(sample: LaunchSample, previous: int) -> int:
    if sample.busy_ns:
        return _LARGEST_STEP * previous
    done = _SECOND * sample.spent // sample.elapsed_ns
    return min(_LARGEST_STEP * previous, max(previous, _LARGEST_STEP * done))
