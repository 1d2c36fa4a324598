"""The cgroups of simulated machines: one in every hierarchy, removed with the testbed.

What belongs here: creating, naming and removing cgroups. What does not: their processes
(``testbed.kubelets``, ``testbed.hosts``).

In cgroup v2, only a cgroup without processes may have children with controllers. Therefore the programs of
a machine are in a child of its cgroup, beside the cgroups that they create.
"""

import hashlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from devkit.errors import DevkitError

ROOT = Path("/sys/fs/cgroup")
PROGRAMS = "programs"
"""The child, in cgroup v2, with the programs of a machine."""
REQUIRED = ("cpu", "memory", "pids")
"""Controllers of cgroup v2 that a kubelet requires."""
_USED = (*REQUIRED, "cpuset", "hugetlb", "io")
_CONTROLLERS = "cgroup.controllers"
_ENABLED = "cgroup.subtree_control"
_INHERITED = ("cpuset.cpus", "cpuset.mems")
_REMOVE_S = 10.0
_POLL_S = 0.02


def prefix_of(bed: Path) -> str:
    """Return the prefix of the names of all cgroups of a testbed."""
    return f"gpushare-testbed-{hashlib.sha256(str(bed).encode()).hexdigest()[:12]}."


def is_unified(root: Path = ROOT) -> bool:
    """Return whether the machine has cgroup v2 only."""
    return (root / _CONTROLLERS).exists()


def lacking(root: Path = ROOT) -> list[str]:
    """Return the required controllers of cgroup v2 that cgroups below the root cannot have."""
    enabled = (root / _ENABLED).read_text().split()
    # Only the root of the machine may have both processes and children with controllers; it has no type.
    offered = enabled if (root / "cgroup.type").exists() else (root / _CONTROLLERS).read_text().split()
    return [name for name in REQUIRED if name not in offered]


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the folders of all hierarchies; one on a machine with cgroup v2 only."""
    if is_unified(root):
        return [root]
    # A hierarchy with several controllers has links as its other names.
    return sorted(
        path.parent for path in root.glob("*/cgroup.procs") if not path.parent.is_symlink() and _is_top(path)
    )


def top(name: str, root: Path = ROOT) -> str:
    """Return the glob pattern of the files that move a process into the cgroup ``name``."""
    return f"{root}/{name}/cgroup.procs" if is_unified(root) else f"{root}/*/{name}/cgroup.procs"


def programs(name: str, root: Path = ROOT) -> str:
    """Return the glob pattern of the files that move a process to the programs of the machine ``name``."""
    return top(f"{name}/{PROGRAMS}" if is_unified(root) else name, root)


def divisible(name: str, root: Path = ROOT) -> Path | None:
    """Return, for cgroup v2, the cgroup in which others can be created with controllers."""
    return root / name if is_unified(root) else None


def create(name: str, root: Path = ROOT) -> None:
    """Create the cgroup ``name`` in every hierarchy, ready for processes."""
    if is_unified(root):
        _enable(root)
        (root / name / PROGRAMS).mkdir(parents=True, exist_ok=True)
        return
    for hierarchy in hierarchies(root):
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for file in _INHERITED:
            # A cpuset without CPUs accepts no process.
            if (hierarchy / file).exists():
                (group / file).write_text((hierarchy / file).read_text())


def delegate(name: str, root: Path = ROOT) -> None:
    """Give children of a cgroup its controllers; in cgroup v2, no process may be in it itself."""
    if is_unified(root):
        _enable(root / name)


def kill(pattern: str, root: Path = ROOT) -> None:
    """Kill the processes in all cgroups with names that match the glob ``pattern``, and in those below them.

    A process that forks meanwhile is killed later, in at most 10 s; then ``remove`` reports it.
    """
    deadline = time.monotonic() + _REMOVE_S
    while (found := _processes(pattern, root)) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _processes(pattern: str, root: Path) -> set[int]:
    found: set[int] = set()
    for hierarchy in hierarchies(root):
        for group in hierarchy.glob(f"{pattern}/"):
            for each in _deepest_first(group):
                # Another process may remove the cgroup meanwhile.
                with suppress(OSError):
                    found.update(map(int, (each / "cgroup.procs").read_text().split()))
    # 0 is a process outside of our PID namespace; to kill() it means our own process group.
    return found - {0}


def remove(pattern: str, root: Path = ROOT) -> None:
    """Remove all cgroups with names that match the glob ``pattern``, and those below them.

    The caller kills their processes first. Raises DevkitError if a cgroup is still busy after 10 s.
    """
    deadline = time.monotonic() + _REMOVE_S
    for hierarchy in hierarchies(root):
        for group in hierarchy.glob(f"{pattern}/"):
            for each in _deepest_first(group):
                _remove(each, deadline)


def _enable(group: Path) -> None:
    controllers = [name for name in (group / _CONTROLLERS).read_text().split() if name in _USED]
    try:
        (group / _ENABLED).write_text(" ".join(f"+{name}" for name in controllers))
    except OSError as error:
        raise DevkitError(f"cannot enable {', '.join(controllers)} in {group / _ENABLED}: {error}") from error


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
                raise DevkitError(f"cannot remove {group}: {error}; stop the processes in it") from error
            time.sleep(_POLL_S)
        else:
            return
