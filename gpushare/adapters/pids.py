"""Processes of this machine: which number each has in its own PID namespace."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_NUMBERS: Final = re.compile(r"^NSpid:.*\s(\d+)$", re.MULTILINE)
"""One number for each namespace, the innermost last (Linux Documentation/filesystems/proc.rst)."""


def inner_pids(pids: Iterable[int], proc: Path) -> dict[int, int]:
    """What processes call themselves; processes that have ended are left out.

    ``proc`` is a ``/proc`` that shows the host's processes.
    """
    found = ((pid, _NUMBERS.search(_status(proc / str(pid)))) for pid in pids)
    return {pid: int(numbers[1]) for pid, numbers in found if numbers}


def _status(process: Path) -> str:
    try:
        return (process / "status").read_text(errors="replace")
    except OSError:
        return ""
