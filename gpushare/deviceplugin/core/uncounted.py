"""Uncounted memory: GPU processes that the driver reports and no region counts, or not fully. Pure.

``process_owners`` finds the container of a process, ``reporter`` emits the events. The exporter
(``gpushare.exporter.isolation_series``) applies the same rules, so that its alerts and these events agree.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpushare.deviceplugin.core.pacing import ProcessesByPid
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import Region
from gpushare.model.local_node import ContainerRef
from gpushare.model.readings import UNCOUNTED_BYTES, ProcessReading, is_clearly_uncounted

_MIB: Final = 1024 * 1024


class UncountedOwner(NamedTuple):
    """A limited container by its container directory, or a pod by its UID; both empty outside of pods."""

    directory: str = ""
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class UncountedProcess:
    """A process with uncounted memory on a GPU.

    ``pid`` is its PID on the host, ``inner_pid`` the one in its container. ``driver_bytes`` is its memory as
    the driver reports it, None if it does not; ``counted`` its memory in the region, None without one, and
    without managed memory, which the driver does not report.
    """

    owner: UncountedOwner
    uuid: str
    pid: int
    inner_pid: int
    driver_bytes: int | None
    counted: int | None = None

    @property
    def uncounted(self) -> int:
        """Bytes that no region counts; 0 if unknown."""
        return max(0, (self.driver_bytes or 0) - (self.counted or 0))


class UncountedFinding(NamedTuple):
    """The subject of one event: processes of one owner on one GPU; ``known`` is that its region has them."""

    owner: UncountedOwner
    uuid: str
    known: bool


@dataclass(frozen=True, slots=True)
class Reported:
    """The processes of the last poll by finding, and the bytes last reported for each current finding."""

    seen: frozenset[tuple[UncountedFinding, int]] = frozenset()
    reported: Mapping[UncountedFinding, int] = field(default_factory=dict)


def uncounted_in(
    directory: str, limits: Sequence[CardLimit], region: Region, running: Mapping[str, ProcessesByPid]
) -> Iterator[UncountedProcess]:
    """Processes of a limited container that its region does not have, or counts far too little for.

    ``directory`` is its container directory, ``running`` its processes by the UUID of the GPU. The region has
    the GPUs of the limits.
    """
    cards = {limit.uuid: at for at, limit in enumerate(limits)}
    known = {process.pid: process for process in region.processes}
    for uuid, on in running.items():
        card = cards.get(uuid)
        found = [
            UncountedProcess(
                UncountedOwner(directory),
                uuid,
                each.pid,
                inner_pid,
                each.used_bytes,
                known[inner_pid].shown(card) if inner_pid in known and card is not None else None,
            )
            for inner_pid, each in on.items()
        ]
        yield from (each for each in found if each.counted is None)
        beyond = [each for each in found if each.counted is not None and each.uncounted]
        if card is not None and is_clearly_uncounted(
            sum(each.uncounted for each in beyond), limits[card].limit_mib * _MIB
        ):
            yield from beyond


def uncounted_beside(
    others: Mapping[str, Iterable[ProcessReading]], homes: Mapping[int, ContainerRef | None]
) -> Iterator[UncountedProcess]:
    """Processes without a region. Those not in ``homes`` have ended, or belong to the MPS daemon."""
    for uuid, processes in others.items():
        for each in processes:
            if each.pid in homes:
                home = homes[each.pid]
                owner = UncountedOwner(pod_uid=home.pod_uid if home else "")
                yield UncountedProcess(owner, uuid, each.pid, each.pid, each.used_bytes)


def new_findings(
    found: Iterable[UncountedProcess], before: Reported
) -> tuple[Reported, dict[UncountedFinding, tuple[UncountedProcess, ...]]]:
    """The new state after a poll, and the processes to report by finding.

    Driver and regions are not read at the same moment, so a process counts from its second poll on. A finding
    is reported once, again after it had disappeared, and again after it has grown considerably.
    """
    findings: dict[UncountedFinding, list[UncountedProcess]] = {}
    for each in found:
        findings.setdefault(UncountedFinding(each.owner, each.uuid, each.counted is not None), []).append(
            each
        )
    reported = {finding: size for finding, size in before.reported.items() if finding in findings}
    fresh = {}
    for finding, uncounted in findings.items():
        confirmed = tuple(each for each in uncounted if (finding, each.pid) in before.seen)
        size = sum(each.uncounted for each in confirmed)
        if confirmed and (finding not in reported or size - reported[finding] > UNCOUNTED_BYTES):
            reported[finding], fresh[finding] = size, confirmed
    seen = frozenset((finding, each.pid) for finding, uncounted in findings.items() for each in uncounted)
    return Reported(seen, reported), fresh
