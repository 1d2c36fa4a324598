"""Whose the processes on cards are, as the kernel of the node tells it.

What belongs here: looking into ``/proc``. What does not: what follows for rates (``pacing``) and for those
that nobody holds (``strays``).

A process is of the container whose region it has mounted. The kernel says so, and a container cannot make
another one's file its own.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare.adapters.mounts import MountSource, source_of
from gpushare.adapters.pids import inner_pids
from gpushare.contract import ISOLATION_INSIDE, MPS_STATE
from gpushare.errors import SourceError
from gpushare.isolation.layout import REGION
from gpushare.model.readings import ProcessReading

_REGION_INSIDE: Final = f"{ISOLATION_INSIDE}/{REGION}"

Found = Mapping[str, tuple[ProcessReading, ...]]
"""By UUID of a card."""


@dataclass(frozen=True, slots=True)
class CardProcesses:
    """Processes by UUID of the card they are on; those that have just ended may be missing.

    ``held`` are those of containers, by place and by what they call themselves; ``others`` have no region.
    """

    held: Mapping[str, Mapping[str, Mapping[int, ProcessReading]]]
    others: Found


class ProcessOwners:
    """Looks into ``proc``, which shows the host's processes, for regions below ``state``."""

    def __init__(self, state: Path, proc: Path) -> None:
        self.state = state
        self.proc = proc
        self._places: dict[int, str] = {}

    def look(self, found: Found) -> CardProcesses:
        """Whose these processes are. Raises SourceError where the host's processes cannot be seen."""
        pids = {each.pid for processes in found.values() for each in processes}
        if pids and not any((self.proc / str(pid)).is_dir() for pid in pids):
            raise SourceError(
                f"none of the {len(pids)} processes that NVML names is in {self.proc}: this pod needs "
                "hostPID: true, or --proc-root must be the host's /proc"
            )
        self._places = self._places_of(pids)
        inner = inner_pids((pid for pid in pids if self._places[pid]), self.proc)
        held: dict[str, dict[str, dict[int, ProcessReading]]] = {uuid: {} for uuid in found}
        for uuid, processes in found.items():
            for each in processes:
                if each.pid in inner:
                    held[uuid].setdefault(self._places[each.pid], {})[inner[each.pid]] = each
        others = {
            uuid: tuple(each for each in processes if not self._places[each.pid])
            for uuid, processes in found.items()
        }
        return CardProcesses(held, others)

    def serves(self, pid: int) -> bool:
        """Whether it is of the MPS daemon, whose servers work for containers: it has all cards' pipes."""
        return source_of(MPS_STATE, pid, self.proc) is not None

    def _places_of(self, pids: Iterable[int]) -> dict[int, str]:
        """Each process's place, "" for one that is not held. A process is asked once while it is seen."""
        device = _device(self.state)
        known = self._places
        return {pid: known[pid] if pid in known else self._place_of(pid, device) for pid in pids}

    def _place_of(self, pid: int, device: str) -> str:
        source = source_of(_REGION_INSIDE, pid, self.proc)
        return _place(source) if source and source.device == device else ""


def _device(folder: Path) -> str:
    number = folder.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def _place(source: MountSource) -> str:
    parts = source.path.split("/")
    return parts[-2] if len(parts) > 1 and parts[-1] == REGION else ""
