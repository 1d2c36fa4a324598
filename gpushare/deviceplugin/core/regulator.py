"""The launch rate that gives a container its compute share: a pure function of one sample.

Sampling the GPU and writing the rate into the region (``gpushare.isolation.region.rate_writes``) do not
belong here.

A launch takes one token per thread (``gpushare/isolation/native/pace.h``). Tokens spent and GPU time used
give the GPU time of one token, and that time gives the rate. The rate is therefore right from the first
sample, whether the container was throttled or not, and idle samples do not change it. Each sample moves the
rate to the geometric mean of the old and the new one, because kernels change and NVML samples are coarse.
"""

import math
from dataclasses import dataclass
from typing import Final

_SECOND: Final = 1_000_000_000
_COARSE: Final = 200
"""NVML reports whole percents: utilisation reported as 0 may be up to 0.5 percent."""


@dataclass(frozen=True, slots=True)
class LaunchSample:
    """Use of one GPU by a container since the previous sample.

    ``busy_ns`` is the GPU time of all its processes and ``spent`` the tokens that it took, both within
    ``elapsed_ns``.
    """

    elapsed_ns: int
    busy_ns: int
    spent: int


def rate(percent: int, sample: LaunchSample, previous: int) -> int:
    """Tokens per second for a compute share of ``percent``; ``previous`` is the last rate, 0 for none.

    A sample without spent tokens or without elapsed time returns the previous rate.
    """
    if sample.spent <= 0 or sample.elapsed_ns <= 0:
        return previous
    busy_ns = max(sample.busy_ns, sample.elapsed_ns / _COARSE)
    fair = percent / 100 * _SECOND * sample.spent / busy_ns
    return max(1, round(math.sqrt(fair * previous) if previous else fair))
