"""Whether the kernel driver was replaced under this process.

A loaded NVML library stays in the process and works with one driver version only: after the driver was
replaced, every call fails until the process ends. A single such answer may come from an upgrade in progress,
so several readings must agree. Pure: times are arguments, in seconds.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

_READINGS: Final = 3


class ReplacementPolicy(NamedTuple):
    """Seconds for which all readings must report a mismatch.

    ``unopened_s`` applies to a process that has never opened the library: there the files of the driver are
    probably newer than the loaded driver, which a restart of the process does not change.
    """

    opened_s: float = 10.0
    unopened_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Readings in a row that reported a mismatch, and the time of the first one."""

    readings: int = 0
    since: float = 0.0

    def after(self, now: float, *, mismatched: bool) -> "Mismatch":
        """The count after a reading at ``now``."""
        if not mismatched:
            return Mismatch()
        return Mismatch(self.readings + 1, self.since if self.readings else now)

    def is_confirmed(self, now: float, policy: ReplacementPolicy, *, opened: bool) -> bool:
        """Whether the driver was replaced; ``opened``: the library could be opened before."""
        lasts_s = policy.opened_s if opened else policy.unopened_s
        return self.readings >= _READINGS and now - self.since >= lasts_s
