"""The launch rate that gives a container its compute share: a pure function of one sample.

Sampling the GPU and writing the rate into the region (``gpushare.isolation.region.rate_writes``) do not
belong here.

A launch takes one token per thread (``gpushare/isolation/native/pace.h``). Tokens spent and GPU time used
give the GPU time of one token, and that time gives the rate. The rate is therefore right from the first
sample, whether the container was throttled or not, and idle samples do not change it. Each sample moves the
rate to the geometric mean of the old and the new one, because kernels change and NVML samples are coarse, and
at most doubles it: a sample that is too low opens the limit for no more than its own time.

While other programs are busy on the GPU too, samples are coarser: on an H200 with driver 580, the part of a
program in a second was a multiple of a seventh or an eighth, so that 25 % were reported as 0 to 57. Then the
rate follows several samples (``with_history``).
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


def with_history(sample: LaunchSample, history: LaunchSample | None) -> LaunchSample:
    """The sums of a sample and of earlier ones, which weigh less with age.

    The history is dropped if its tokens were much cheaper: a container whose kernels have become longer is
    limited at once. A sample without GPU time drops nothing, as it is common at a small share; nor does one
    without tokens, whose GPU time belongs to earlier launches.
    """
    if history is None or _is_longer(sample, history):
        return sample
    return LaunchSample(
        sample.elapsed_ns + round(_KEPT * history.elapsed_ns),
        sample.busy_ns + round(_KEPT * history.busy_ns),
        sample.spent + round(_KEPT * history.spent),
    )


def _is_longer(sample: LaunchSample, history: LaunchSample) -> bool:
    """Whether a token takes much longer than in the history."""
    return sample.spent > 0 and sample.busy_ns * history.spent > _LONGER * history.busy_ns * sample.spent


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
