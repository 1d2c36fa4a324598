"""What isolation has on this node: the limit and the region of each container that it holds.

What belongs here: reading both, and whether a region can be believed. What does not: what becomes of it
(``held``). A limit is root's word. A region can be written by its container in any way and at any moment:
it is read as bytes, up to its size, and never mapped.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpushare.adapters.pids import inner_pids
from gpushare.errors import InvalidRequest, SourceError
from gpushare.isolation.layout import LIMIT, REGION, Owner, owner_of
from gpushare.isolation.limits import CardLimit, parse
from gpushare.isolation.region import SIZE, Region, read

_MIB: Final = 1024 * 1024
_LONGEST_LIMIT: Final = 8192
NOTHING: Final = Region((), ())
"""What a region says that no process has begun."""


@dataclass(frozen=True, slots=True)
class Held:
    """A container that is held to ``limits``. ``region`` is None where it has a ``problem``."""

    owner: Owner
    limits: tuple[CardLimit, ...]
    region: Region | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Isolation:
    """All containers that are held.

    ``inner_pids`` are what processes on cards call themselves, by the host's pids; empty where none is held.
    """

    held: tuple[Held, ...] = ()
    inner_pids: Mapping[int, int] = field(default_factory=dict)

    @property
    def unreadable(self) -> dict[str, str]:
        """Why limits or regions cannot be read or believed, by pod UID and container."""
        return {
            f"{each.owner.uid}/{each.owner.container}": each.problem for each in self.held if each.problem
        }


def isolation_of(state: Path, pids: Iterable[int], proc: Path) -> Isolation:
    """Everything under ``state``, and these processes; nothing where there is no such folder.

    Raises SourceError.
    """
    found = (_held(state / name, owner) for name, owner in _folders(state))
    held = tuple(each for each in found if each)
    return Isolation(held, inner_pids(pids, proc) if held else {})


def _held(link: Path, owner: Owner) -> Held | None:
    """What is in the place that the link names; None where the node agent has just taken it away."""
    limits: tuple[CardLimit, ...] = ()
    try:
        # The agent may turn the link to another place at any moment.
        place = link.resolve(strict=True)
        limits = _limits(place / LIMIT)
        return Held(owner, limits, _region(place / REGION, limits))
    except FileNotFoundError:
        return None
    except (OSError, InvalidRequest, SourceError) as error:
        return Held(owner, limits, None, str(error))


def _folders(state: Path) -> Iterator[tuple[str, Owner]]:
    try:
        names = sorted(path.name for path in state.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise SourceError(f"{state} cannot be listed: {error}") from error
    yield from ((name, owner) for name in names if (owner := owner_of(name)))


def _limits(path: Path) -> tuple[CardLimit, ...]:
    return parse(_content(path, _LONGEST_LIMIT).decode("ascii", "replace"))


def _region(path: Path, limits: Sequence[CardLimit]) -> Region:
    region = read(lambda: _content(path, SIZE))
    if region is None:
        return NOTHING
    _check(region, limits)
    return region


def _check(region: Region, limits: Sequence[CardLimit]) -> None:
    """Raises SourceError for a region that says nothing of a card, or more than the card has."""
    uses = {use.uuid: use for use in region.cards}
    for limit in limits:
        use = uses.get(limit.uuid)
        if use is None:
            raise SourceError(f"the region says nothing of card {limit.uuid}")
        if max(use.used, use.peak) > limit.card_mib * _MIB:
            raise SourceError(
                f"the region says that {use.used} bytes, at most {use.peak}, are used of card {limit.uuid} "
                f"of {limit.card_mib} MiB"
            )


def _content(path: Path, size: int) -> bytes:
    """The file's bytes, one more than ``size`` where it has more. A link or a pipe is no file."""
    with open(path, "rb", buffering=0, opener=_opener) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SourceError(f"{path} is no file")
        return file.read(size + 1) or b""


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
