"""The cgroups of simulated machines: one in every hierarchy of cgroup v1, removed with the testbed.

What belongs here: creating, naming and removing cgroups. What does not: their processes
(``testbed.kubelets``, ``testbed.hosts``).
"""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.errors import TestbedError

ROOT = Path("/sys/fs/cgroup")
_INHERITED = ("cpuset.cpus", "cpuset.mems")
_REMOVE_S = 10.0
_POLL_S = 0.02


def prefix_of(bed: Path) -> str:
    """Return the prefix of the names of all cgroups of a testbed."""
    return f"gpushare-testbed-{hashlib.sha256(str(bed).encode()).hexdigest()[:12]}."


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the folders of all hierarchies; an empty list on a machine with cgroup v2 only."""
    # A hierarchy with several controllers has links as its other names.
    return sorted(
        path.parent for path in root.glob("*/cgroup.procs") if not path.parent.is_symlink() and _is_top(path)
    )


def create(name: str, root: Path = ROOT) -> None:
    """Create the cgroup ``name`` in every hierarchy, ready for processes."""
    for hierarchy in hierarchies(root):
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for file in _INHERITED:
            # A cpuset without CPUs accepts no process.
            if (hierarchy / file).exists():
                (group / file).write_text((hierarchy / file).read_text())


def remove(pattern: str, root: Path = ROOT) -> None:
    """Remove all cgroups with names that match the glob ``pattern``, and those below them.

    The caller kills their processes first. Raises TestbedError if a cgroup is still busy after 10 s.
    """
    deadline = time.monotonic() + _REMOVE_S
    for hierarchy in hierarchies(root):
        for group in hierarchy.glob(f"{pattern}/"):
            for each in _deepest_first(group):
                _remove(each, deadline)


def _is_top(procs: Path) -> bool:
    return (procs.parent.parent / "cgroup.procs").exists() is False


def _deepest_first(group: Path) -> Iterator[Path]:
    for child in group.glob("*/"):
        yield from _deepest_first(child)
    yield group


def _remove(group: Path, deadline: float) -> None:
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise TestbedError(f"cannot remove {group}: {error}; stop the processes in it") from error
            time.sleep(_POLL_S)
        else:
            return
