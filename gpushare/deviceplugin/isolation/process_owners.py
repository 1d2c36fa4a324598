"""Finds the containers of GPU processes in the host's ``/proc``.

A process belongs to the container whose region it has mounted. This comes from the kernel: a container cannot
mount the file of another one. ``core.pacing`` and ``core.uncounted`` use the result.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare.adapters.mounts import MountSource, source_of
from gpushare.adapters.pids import check_visible, inner_pids, start_of
from gpushare.contract import ISOLATION_INSIDE, MPS_STATE
from gpushare.isolation.layout import REGION
from gpushare.model.readings import ProcessReading

_REGION_INSIDE: Final = f"{ISOLATION_INSIDE}/{REGION}"

ProcessesByGpu = Mapping[str, tuple[ProcessReading, ...]]
"""Processes by GPU UUID."""


@dataclass(frozen=True, slots=True)
class CardProcesses:
    """Processes by GPU UUID; processes that have just ended may be missing.

    ``limited`` has the processes of limited containers by container directory and by their PID in the
    container; ``others`` have no region.
    """

    limited: Mapping[str, Mapping[str, Mapping[int, ProcessReading]]]
    others: ProcessesByGpu


class ProcessOwners:
    """Reads ``proc``, which shows the host's processes, for mounted regions below ``state``."""

    def __init__(self, state: Path, proc: Path) -> None:
        self.state = state
        self.proc = proc
        self._directories: dict[int, str] = {}
        self._starts: dict[int, str] = {}

    def locate(self, running: ProcessesByGpu) -> CardProcesses:
        """The containers of these processes. Raises SourceError if the host's processes are not visible."""
        pids = {each.pid for processes in running.values() for each in processes}
        check_visible(pids, self.proc)
        self._directories = self._directories_of(pids)
        inner = inner_pids((pid for pid in pids if self._directories[pid]), self.proc)
        limited: dict[str, dict[str, dict[int, ProcessReading]]] = {uuid: {} for uuid in running}
        for uuid, processes in running.items():
            for each in processes:
                if each.pid in inner:
                    limited[uuid].setdefault(self._directories[each.pid], {})[inner[each.pid]] = each
        others = {
            uuid: tuple(each for each in processes if not self._directories[each.pid])
            for uuid, processes in running.items()
        }
        return CardProcesses(limited, others)

    def is_mps_server(self, pid: int) -> bool:
        """Whether a process belongs to the MPS daemon, which has the MPS state directory mounted."""
        return source_of(MPS_STATE, pid, self.proc) is not None

    def _directories_of(self, pids: Iterable[int]) -> dict[int, str]:
        """The container directory of each process, "" without a limit. Known processes are not read again."""
        device = _device(self.state)
        starts = {pid: start_of(pid, self.proc) for pid in pids}
        known = {pid: self._directories[pid] for pid in starts if self._starts.get(pid) == starts[pid]}
        self._starts = starts
        return {pid: known[pid] if pid in known else self._directory_of(pid, device) for pid in starts}

    def _directory_of(self, pid: int, device: str) -> str:
        source = source_of(_REGION_INSIDE, pid, self.proc)
        return _directory(source) if source and source.device == device else ""


def _device(folder: Path) -> str:
    number = folder.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def _directory(source: MountSource) -> str:
    parts = source.path.split("/")
    return parts[-2] if len(parts) > 1 and parts[-1] == REGION else ""
