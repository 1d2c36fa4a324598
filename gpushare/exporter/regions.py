"""Containers with enforced limits on this node: limit file and region of each.

Parsing the files belongs in ``gpushare.isolation.files``, evaluation in ``isolation_series``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpushare.adapters.pids import inner_pids, innermost, shows_host, started_at
from gpushare.errors import InvalidRequest, SourceError, cause_of
from gpushare.isolation.files import limits_at, region_at
from gpushare.isolation.layout import LIMIT, REGION, DirectoryOwner, owner_of
from gpushare.isolation.limits import CardLimit
from gpushare.isolation.region import Region, without_ended


@dataclass(frozen=True, slots=True)
class LimitedContainer:
    """A container with ``limits``. ``region`` is None if it has a ``problem``."""

    owner: DirectoryOwner
    limits: tuple[CardLimit, ...]
    region: Region | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class IsolationState:
    """All containers with enforced limits.

    ``inner_pids`` maps host PIDs of GPU processes to PIDs in their namespaces; empty without containers.
    """

    containers: tuple[LimitedContainer, ...] = ()
    inner_pids: Mapping[int, int] = field(default_factory=dict)

    @property
    def unreadable(self) -> dict[str, str]:
        """Return the problems of limit files and regions by ``<pod UID>/<container>``."""
        return {
            f"{each.owner.uid}/{each.owner.container}": each.problem
            for each in self.containers
            if each.problem
        }


def isolation_of(state: Path, pids: Iterable[int], proc: Path) -> IsolationState:
    """Read all containers under ``state``, and the inner PIDs; empty if the folder does not exist.

    ``pids`` are those of the driver. Raises SourceError.
    """
    found = (_limited_container(state / name, owner) for name, owner in _folders(state))
    containers = tuple(each for each in found if each)
    if not containers:
        return IsolationState()
    pids = set(pids)
    return IsolationState(_without_ended(containers, pids, proc), inner_pids(pids, proc))


def _without_ended(
    containers: tuple[LimitedContainer, ...], pids: Collection[int], proc: Path
) -> tuple[LimitedContainer, ...]:
    """Leave out processes that have ended, unless ``proc`` does not show the processes of the node."""
    listed = {
        (each.pid, each.start)
        for container in containers
        if container.region
        for each in container.region.processes
    }
    running = innermost(pids, proc)
    # Most are among those of the driver; only for the others all processes of the node are read.
    if starts := {start for _, start in listed - running}:
        running |= innermost(started_at(starts, proc), proc)
    if not running and not shows_host(proc):
        return containers
    return tuple(
        replace(each, region=without_ended(each.region, running)) if each.region else each
        for each in containers
    )


def _limited_container(link: Path, owner: DirectoryOwner) -> LimitedContainer | None:
    """Read the container directory behind the link; None if the node agent has just removed it."""
    limits: tuple[CardLimit, ...] = ()
    try:
        # The node agent may repoint the link at any moment.
        directory = link.resolve(strict=True)
        limits = limits_at(directory / LIMIT)
        return LimitedContainer(owner, limits, region_at(directory / REGION, limits))
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
        raise SourceError(f"{state} cannot be listed: {cause_of(error)}") from error
    yield from ((name, owner) for name in names if (owner := owner_of(name)))
