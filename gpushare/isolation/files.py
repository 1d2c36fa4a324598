"""Limit and region of a place on the node's disk: reading both, and writing the agent's words into a region.

What belongs here: what of a file can be believed. What does not: what is in them (``limits``, ``region``)
and where they are (``layout``). A limit is root's word. A region can be written by its container in any way
and at any moment: it is read as bytes, up to its size, and never mapped.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gpushare.errors import SourceError
from gpushare.isolation.limits import CardLimit, parse
from gpushare.isolation.region import SIZE, Region, Write, read

_MIB: Final = 1024 * 1024
_LONGEST_LIMIT: Final = 8192
NOTHING: Final = Region((), ())
"""What a region says that no process has begun."""


def limits_at(path: Path) -> tuple[CardLimit, ...]:
    """What a limit file says. Raises OSError, SourceError, InvalidRequest."""
    with _opened(path, os.O_RDONLY) as file:
        return parse(_content(file, _LONGEST_LIMIT).decode("ascii", "replace"))


def region_at(path: Path, limits: Sequence[CardLimit]) -> Region:
    """What the region of a container with these limits says. Raises OSError, SourceError."""
    with _opened(path, os.O_RDONLY) as file:
        region = read(lambda: _content(file, SIZE))
    if region is None:
        return NOTHING
    _check(region, limits)
    return region


def write_region(path: Path, writes: Iterable[Write]) -> None:
    """Write the agent's words, in this order. Raises OSError, SourceError."""
    with _opened(path, os.O_RDWR) as file:
        if (size := os.fstat(file).st_size) != SIZE:
            raise SourceError(f"a region has {SIZE} bytes, this one has {size}")
        for each in writes:
            os.pwrite(file, each.content, each.at)


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


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """The open file. A link or a pipe is no file, and nobody's lease on it is waited for."""
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise SourceError(f"{path} is no file")
        yield file
    finally:
        os.close(file)


def _content(file: int, size: int) -> bytes:
    """The file's bytes, one more than ``size`` where it has more."""
    return os.pread(file, size + 1, 0)
