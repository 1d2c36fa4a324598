"""Memory of cards that no limit holds: what the driver says of processes, beside what regions say. Pure.

What belongs here: which processes those are, and what of it is news. What does not: whose processes they
are (``occupants``), and telling of them (``lookout``). The same processes count as with the exporter
(``gpushare.exporter.isolation_use``): its alerts and these events are of one mind.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpushare.adapters.cgroups import ContainerRef
from gpushare.deviceplugin.core.pacing import Seen
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import Region
from gpushare.model.counting import MUCH_BYTES, is_much
from gpushare.model.readings import ProcessReading

_MIB: Final = 1024 * 1024


class Owner(NamedTuple):
    """A held container by its place, else a pod by its UID; both are empty for what runs in no pod."""

    place: str = ""
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class UncountedProcess:
    """A process with memory of a card that was not counted; ``pid`` is the host's, ``own`` its own number.

    ``shown`` are its bytes by the driver, None where that does not tell; ``counted`` those by its region,
    None where no region knows it.
    """

    whose: Owner
    uuid: str
    pid: int
    own: int
    shown: int | None
    counted: int | None = None

    @property
    def uncounted(self) -> int:
        """Bytes that nobody has counted, as far as they are known."""
        return max(0, (self.shown or 0) - (self.counted or 0))


class Finding(NamedTuple):
    """What is told as one: processes of one container or pod on one card, ``known`` to its region or not."""

    whose: Owner
    uuid: str
    known: bool


@dataclass(frozen=True, slots=True)
class Reported:
    """The strays of the last look, and how many bytes were told of each fact that lasts."""

    seen: frozenset[tuple[Finding, int]] = frozenset()
    told: Mapping[Finding, int] = field(default_factory=dict)


def uncounted_in(
    place: str, limits: Sequence[CardLimit], region: Region, seen: Mapping[str, Seen]
) -> Iterator[UncountedProcess]:
    """Processes of a held container that its region does not know, or has counted clearly too little of.

    ``seen`` are its processes by UUID of each card. The region's cards are those of the limits.
    """
    cards = {limit.uuid: at for at, limit in enumerate(limits)}
    known = {process.pid: process for process in region.processes}
    for uuid, on in seen.items():
        card = cards.get(uuid)
        found = [
            UncountedProcess(
                Owner(place),
                uuid,
                each.pid,
                own,
                each.used_bytes,
                known[own].used[card] if own in known and card is not None else None,
            )
            for own, each in on.items()
        ]
        yield from (each for each in found if each.counted is None)
        beyond = [each for each in found if each.counted is not None and each.uncounted]
        if card is not None and is_much(
            sum(each.uncounted for each in beyond), limits[card].limit_mib * _MIB
        ):
            yield from beyond


def uncounted_beside(
    others: Mapping[str, Iterable[ProcessReading]], homes: Mapping[int, ContainerRef | None]
) -> Iterator[UncountedProcess]:
    """Processes that have no region. Those not in ``homes`` have ended meanwhile, or work for others."""
    for uuid, processes in others.items():
        for each in processes:
            if each.pid in homes:
                home = homes[each.pid]
                whose = Owner(pod_uid=home.pod_uid if home else "")
                yield UncountedProcess(whose, uuid, each.pid, each.pid, each.used_bytes)


def new_findings(
    found: Iterable[UncountedProcess], before: Reported
) -> tuple[Reported, dict[Finding, tuple[UncountedProcess, ...]]]:
    """What is to be told after a look, and what to remember.

    Driver and regions are not read at one moment: what was seen at two looks is settled. A fact is told
    once, again after it was gone, and again when it has grown by much.
    """
    facts: dict[Finding, list[UncountedProcess]] = {}
    for each in found:
        facts.setdefault(Finding(each.whose, each.uuid, each.counted is not None), []).append(each)
    told = {fact: size for fact, size in before.told.items() if fact in facts}
    fresh = {}
    for fact, uncounted in facts.items():
        settled = tuple(each for each in uncounted if (fact, each.pid) in before.seen)
        size = sum(each.uncounted for each in settled)
        if settled and (fact not in told or size - told[fact] > MUCH_BYTES):
            told[fact], fresh[fact] = size, settled
    seen = frozenset((fact, each.pid) for fact, uncounted in facts.items() for each in uncounted)
    return Reported(seen, told), fresh
