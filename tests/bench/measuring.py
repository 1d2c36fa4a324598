"""The cost of processes, and durations, for all benchmarks."""

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cores:
    """The processor cores of the control plane, and those of the extender."""

    name: str
    control_plane: frozenset[int]
    extender: frozenset[int]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


def all_cores() -> tuple[Cores, ...]:
    """Two cores shared by all, and one core for each; only the first on a machine with one core."""
    two = sorted(os.sched_getaffinity(0))[:2]
    shared = Cores("shared cores", frozenset(two), frozenset(two))
    return (shared, Cores("separate cores", frozenset(two[:1]), frozenset(two[1:])))[: len(two)]


def pin(pid: int, cores: Collection[int]) -> None:
    """Let all threads of a process run on these cores only; its new threads and children inherit that."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cores)


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def cpu_s(pid: int) -> float:
    """Processor time of a process since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ms(seconds: float) -> str:
    """A duration as text."""
    return f"{1000 * seconds:.1f} ms"


def quantile(seconds: Sequence[float], part: float) -> float:
    """The quantile of durations: 0.5 is the median."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * part))]


def percentiles(seconds: Sequence[float]) -> str:
    """Median, 99th percentile and maximum of durations, as text."""
    p50, p99 = quantile(seconds, 0.5), quantile(seconds, 0.99)
    return f"p50 {ms(p50)}, p99 {ms(p99)}, most {ms(max(seconds))}"
