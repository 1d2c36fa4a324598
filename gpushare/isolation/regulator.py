"""How many tokens a container gets for launches, so that it has its part of a card's time.

What belongs here: the rule, as a pure function of what was measured. What does not: sampling the card, and
writing the rate into the container's region (``gpushare.isolation.region.rate_writes``).

A launch takes a token for each of its threads (``native/pace.h``). What a token costs in time of the card
follows from what was spent and how long the card worked for it; the rate is what that time allows. So the
rate is right at the first sample already, whether the container was held up or not, and an idle one changes
nothing. Half of the way is gone at each sample, by ratio: kernels change, and samples of NVML are coarse.
"""

import math
from dataclasses import dataclass
from typing import Final

_SECOND: Final = 1_000_000_000
_COARSE: Final = 200
"""NVML tells whole percents: work that is shown as none may take up to half of one."""


@dataclass(frozen=True, slots=True)
class LaunchSample:
    """What a container did on one card since the sample before.

    ``busy_ns`` is how long the card worked for all its processes, ``spent`` how many tokens it took, both
    within ``elapsed_ns``.
    """

    elapsed_ns: int
    busy_ns: int
    spent: int


def rate(percent: int, sample: LaunchSample, previous: int) -> int:
    """Tokens a second for ``percent`` of a card's time; ``previous`` is the last rate, 0 before the first.

    Where nothing was spent, or no time went by, the sample says nothing: the rate stays.
    """
    if sample.spent <= 0 or sample.elapsed_ns <= 0:
        return previous
    busy_ns = max(sample.busy_ns, sample.elapsed_ns / _COARSE)
    fair = percent / 100 * _SECOND * sample.spent / busy_ns
    return max(1, round(math.sqrt(fair * previous) if previous else fair))
