"""What isolation has on this node: the limit and the region of each container that it holds.

What belongs here: which containers there are. What does not: reading their files
(``gpushare.isolation.files``), and what becomes of it (``held``).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpushare.adapters.pids import inner_pids
from gpushare.errors import InvalidRequest, SourceError
from gpushare.isolation.files import limits_at, region_at
from gpushare.isolation.layout import LIMIT, REGION, DirectoryOwner, owner_of
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import Region


@dataclass(frozen=True, slots=True)
class LimitedContainer:
    """A container that is held to ``limits``. ``region`` is None where it has a ``problem``."""

    owner: DirectoryOwner
    limits: tuple[CardLimit, ...]
    region: Region | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class IsolationState:
    """All containers that are held.

    ``inner_pids`` are what processes on cards call themselves, by the host's pids; empty where none is held.
    """

    held: tuple[LimitedContainer, ...] = ()
    inner_pids: Mapping[int, int] = field(default_factory=dict)

    @property
    def unreadable(self) -> dict[str, str]:
        """Why limits or regions cannot be read or believed, by pod UID and container."""
        return {
            f"{each.owner.uid}/{each.owner.container}": each.problem for each in self.held if each.problem
        }


def isolation_of(state: Path, pids: Iterable[int], proc: Path) -> IsolationState:
    """Everything under ``state``, and these processes; nothing where there is no such folder.

    Raises SourceError.
    """
    found = (_held(state / name, owner) for name, owner in _folders(state))
    held = tuple(each for each in found if each)
    return IsolationState(held, inner_pids(pids, proc) if held else {})


def _held(link: Path, owner: DirectoryOwner) -> LimitedContainer | None:
    """What is in the place that the link names; None where the node agent has just taken it away."""
    limits: tuple[CardLimit, ...] = ()
    try:
        # The agent may turn the link to another place at any moment.
        place = link.resolve(strict=True)
        limits = limits_at(place / LIMIT)
        return LimitedContainer(owner, limits, region_at(place / REGION, limits))
    except FileNotFoundError:
        return None
    except (OSError, InvalidRequest, SourceError) as error:
        return LimitedContainer(owner, limits, None, str(error))


def _folders(state: Path) -> Iterator[tuple[str, DirectoryOwner]]:
    try:
        names = sorted(path.name for path in state.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise SourceError(f"{state} cannot be listed: {error}") from error
    yield from ((name, owner) for name in names if (owner := owner_of(name)))
