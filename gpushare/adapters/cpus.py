"""The CPUs that processes may use, and those beside each GPU.

The kernel intersects the cpuset of a container's cgroup with what the program has set for itself, and shows
the result in ``/proc/<pid>/status`` (cpuset(7)): the same on version 1 and 2 of cgroups.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gpushare.adapters.files import text_if_any
from gpushare.adapters.nvml.reading import numa_node

_ALLOWED: Final = re.compile(r"^Cpus_allowed_list:\s*(\S+)$", re.MULTILINE)
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_MOST: Final = 1 << 16
"""More CPUs than Linux supports."""


def cpus_of(pids: Iterable[int], proc: Path) -> dict[int, frozenset[int]]:
    """Return the CPUs that each process may use; ended processes are omitted."""
    found = ((pid, _ALLOWED.search(text_if_any(proc / str(pid) / "status"))) for pid in pids)
    return {pid: parse_cpus(match[1]) for pid, match in found if match}


def cpus_beside(pci: str, sysfs: Path) -> frozenset[int] | None:
    """Return the CPUs of the NUMA node of a GPU, by its PCI address; None if the machine reports none."""
    node = numa_node(sysfs, pci)
    if node is None:
        return None
    text = text_if_any(sysfs / "devices" / "system" / "node" / f"node{node}" / "cpulist").strip()
    return parse_cpus(text) or None


def parse_cpus(text: str) -> frozenset[int]:
    """Parse a list of the kernel such as ``0-3,8``; empty if it is none."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return frozenset()
        first, last = int(match[1]), int(match[2] or match[1])
        found.update(range(first, min(last, _MOST) + 1))
    return frozenset(found)
