"""Processes of the host: visibility, command names, and PIDs in their own PID namespaces."""

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from gpushare.adapters.files import text_if_any
from gpushare.errors import SourceError

_NUMBERS: Final = re.compile(r"^NSpid:.*\s(\d+)$", re.MULTILINE)
"""One number for each namespace, the innermost last (Linux Documentation/filesystems/proc.rst)."""
_START_FIELD: Final = 19
"""Position of ``starttime`` after the command name (proc_pid_stat(5))."""
_KERNEL: Final = 2
_HOSTS: Final = "pid:[4026531836]"
"""The first PID namespace of a kernel (PROC_PID_INIT_INO in Linux include/linux/proc_ns.h)."""


def hosts_proc(proc: Path = Path("/proc")) -> Path | None:
    """Return ``proc`` if it shows the host's processes; None if this process has its own PID namespace."""
    try:
        return proc if str((proc / "self" / "ns" / "pid").readlink()) == _HOSTS else None
    except OSError:
        return None


def shows_host(proc: Path) -> bool:
    """Return whether ``proc`` shows the host's processes; only there PID 2 starts the kernel's threads."""
    return command_of(_KERNEL, proc) == "kthreadd"


def check_visible(pids: Collection[int], proc: Path) -> None:
    """Raise SourceError if ``proc`` shows none of these processes because it is not that of the host."""
    if pids and not any((proc / str(pid)).is_dir() for pid in pids) and not shows_host(proc):
        raise SourceError(
            f"none of the {len(pids)} processes that NVML lists is in {proc}: "
            "this pod needs hostPID: true, or --proc-root must be the host's /proc"
        )


def inner_pids(pids: Iterable[int], proc: Path) -> dict[int, int]:
    """Return the PIDs in the innermost namespaces by host PID; ended processes are omitted.

    ``proc`` is a ``/proc`` that shows the host's processes.
    """
    found = ((pid, _NUMBERS.search(text_if_any(proc / str(pid) / "status"))) for pid in pids)
    return {pid: int(numbers[1]) for pid, numbers in found if numbers}


def start_of(pid: int, proc: Path) -> str:
    """Return when a process started, in clock ticks since boot; empty if it has ended.

    Together with the PID it identifies a process: PIDs are reused.
    """
    # The command name before it, in parentheses, may contain spaces and parentheses.
    fields = text_if_any(proc / str(pid) / "stat").rpartition(")")[2].split()
    return fields[_START_FIELD] if len(fields) > _START_FIELD else ""


def innermost(pids: Iterable[int], proc: Path) -> frozenset[tuple[int, int]]:
    """Return (PID in the innermost namespace, start in clock ticks) of the processes that still run."""
    starts = {pid: start_of(pid, proc) for pid in pids}
    inner = inner_pids(starts, proc)
    return frozenset((inner[pid], int(start)) for pid, start in starts.items() if start and pid in inner)


def started_at(starts: Collection[int], proc: Path) -> list[int]:
    """Return the host PIDs of all processes that started at one of these clock ticks."""
    pids = (int(each.name) for each in proc.glob("[0-9]*"))
    wanted = set(map(str, starts))
    return [pid for pid in pids if start_of(pid, proc) in wanted]


def command_of(pid: int, proc: Path) -> str:
    """Return a process's command name, "?" if unreadable. Processes can choose any name."""
    name = text_if_any(proc / str(pid) / "comm").removesuffix("\n")
    return "".join(each if each.isprintable() else "?" for each in name) or "?"
