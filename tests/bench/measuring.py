"""The machine, the cost of processes, and durations, for all benchmarks."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path


def machine() -> str:
    """The cores, the versions and the load of this machine, on one line."""
    versions = f"Python {platform.python_version()}, Linux {platform.release()}"
    return f"{os.cpu_count()} cores, {versions}, load {os.getloadavg()[0]:.1f}"


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
