"""Reads limit files and regions of containers, and writes the agent's values into regions.

Checks here which content can be trusted; formats are in ``limits`` and ``region``, paths in ``layout``. Only
root can write a limit file. A container can write anything into its region at any moment: the region is read
as bytes, up to its size, and never mapped.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from gpushare.errors import SourceError
from gpushare.isolation.limits import CardLimit, parse
from gpushare.isolation.region import Region, Write, read
from gpushare.isolation.region_layout import HEADER, MAX_SIZE, SIZE, RegionLayout

_MIB: Final = 1024 * 1024
_MAX_LIMIT_BYTES: Final = 8192
UNUSED: Final = Region((), ())
"""A region that no process has initialised."""


def limits_at(path: Path) -> tuple[CardLimit, ...]:
    """The limits in a limit file. Raises OSError, SourceError, InvalidRequest."""
    with _opened(path, os.O_RDONLY) as file:
        return parse(_content(file, _MAX_LIMIT_BYTES).decode("ascii", "replace"))


def region_at(path: Path, limits: Sequence[CardLimit]) -> Region:
    """The region of a container with these limits. Raises OSError, SourceError."""
    with _opened(path, os.O_RDONLY) as file:
        region = read(lambda: _content(file, MAX_SIZE))
    if region is None:
        return UNUSED
    _check(region, limits)
    return region


def write_region(path: Path, writes: Iterable[Write]) -> None:
    """Apply the agent's writes in this order, if all are within the file. Raises OSError, SourceError."""
    listed = tuple(writes)
    end = max((each.at + len(each.content) for each in listed), default=0)
    with _opened(path, os.O_RDWR) as file:
        if (size := os.fstat(file).st_size) < end:
            raise SourceError(f"the region has {size} bytes instead of at least {end}")
        for each in listed:
            os.pwrite(file, each.content, each.at)


class RegionSize(NamedTuple):
    """Bytes of a region's file, and those that it should have."""

    actual: int
    expected: int


def region_size(path: Path) -> RegionSize:
    """The size of a region; one whose header is invalid should have the size of a new one.

    Agent and library may be of different versions: a region may be as large as its layout, or as a new one.
    Raises OSError, and SourceError if it is not a file.
    """
    with _opened(path, os.O_RDONLY) as file:
        actual, header = os.fstat(file).st_size, _content(file, HEADER.size)
    try:
        layout = RegionLayout.of(header)
        least = layout.size if layout else SIZE
    except SourceError:
        least = SIZE
    return RegionSize(actual, SIZE if actual >= SIZE > least else least)


def shrink_region(path: Path, size: int) -> None:
    """Remove everything after ``size`` bytes. Raises OSError, and SourceError if it is not a file."""
    with _opened(path, os.O_RDWR) as file:
        if os.fstat(file).st_size > size:
            os.ftruncate(file, size)


def _check(region: Region, limits: Sequence[CardLimit]) -> None:
    """Raises SourceError for a region without one of the GPUs, or with more memory than a GPU has.

    Of two entries for a GPU, readers would use one and this check the other.
    """
    for limit in limits:
        uses = [use for use in region.cards if use.uuid == limit.uuid]
        if len(uses) != 1:
            number = f"{len(uses)} entries" if uses else "no entry"
            raise SourceError(f"the region has {number} for GPU {limit.uuid}")
        (use,) = uses
        if max(use.used, use.peak) > limit.card_mib * _MIB:
            raise SourceError(
                f"the region counts {use.used} bytes, peak {use.peak}, of GPU {limit.uuid}, which has "
                f"{limit.card_mib} MiB"
            )


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """The open file. Links and pipes are rejected, and a file lease does not block the call."""
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise SourceError(f"{path} is not a regular file")
        yield file
    finally:
        os.close(file)


def _content(file: int, size: int) -> bytes:
    """The content of the file, at most ``size`` + 1 bytes."""
    return os.pread(file, size + 1, 0)
