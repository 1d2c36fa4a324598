"""The agent's record on disk: every allocation, written before Allocate returns it; sizes of contexts.

One JSON file, always replaced as a whole. It is in a directory below the kubelet's device plugin directory,
where the kubelet removes nothing but sockets, so the manifest of the Aliyun plugin needs no further mount.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import structlog

from gpushare.adapters.files import read_file, rename_file, replace_file
from gpushare.contract import AGENT_RECORD
from gpushare.deviceplugin.core.allocations import Allocation, Allocations

log = structlog.get_logger()

_VERSION: Final = 1


class _RecordDocument(msgspec.Struct):
    """The file. The fields of ``Allocation`` and ``Enforcement`` are part of its format."""

    version: int
    unit: str
    allocations: list[Allocation]
    context_mib: dict[str, int] = {}


def _is_same(one: Allocations, other: Allocations) -> bool:
    return one.by_container is other.by_container and one.context_mib is other.context_mib


class AllocationRecord:
    """The record of one node; ``unit`` is the unit of its amounts.

    ``previous_unit`` is the unit of the file that was read, None if there was no file. ``context_mib`` has
    the sizes of contexts in that file, by GPU UUID.
    """

    def __init__(self, folder: Path, unit: str) -> None:
        self._path = folder / Path(AGENT_RECORD).name
        self._unit = unit
        self._lock = asyncio.Lock()
        self._written: Allocations | None = None
        self.previous_unit: str | None = None
        self.context_mib: Mapping[str, int] = {}

    def read(self) -> tuple[Allocation, ...]:
        """All recorded allocations; empty without a file.

        A file that cannot be decoded is renamed and ignored: the kubelet's checkpoint has the same
        allocations, so the agent can start without it.
        """
        text = read_file(self._path)
        if text is None:
            return ()
        try:
            file = msgspec.json.decode(text, type=_RecordDocument)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return self._set_aside(str(error))
        if file.version != _VERSION:
            return self._set_aside(f"unsupported version {file.version}, expected {_VERSION}")
        self.previous_unit = file.unit
        self.context_mib = file.context_mib
        return tuple(file.allocations)

    async def write(self, allocations: Callable[[], Allocations]) -> None:
        """Write the allocations of the node durably, unless they are written already. Raises ConfigError.

        ``allocations`` is called once earlier writes have finished. A cancelled caller still waits for its
        write, so that two writes never overlap.
        """
        async with self._lock:
            # Read under the lock: an earlier write may have taken long, and the state has moved on.
            current = allocations()
            if self._written and _is_same(current, self._written):
                return
            listed = list(current.by_container.values())
            content = msgspec.json.encode(
                _RecordDocument(_VERSION, self._unit, listed, dict(current.context_mib))
            )
            # Shielded: a thread cannot be stopped, and the next write must not overlap it.
            writing = asyncio.ensure_future(asyncio.to_thread(replace_file, self._path, content))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await asyncio.wait({writing})
                raise
            self._written = current

    def _set_aside(self, problem: str) -> tuple[Allocation, ...]:
        aside = self._path.with_suffix(".unreadable")
        log.error("record_unreadable", path=str(self._path), problem=problem, moved_to=str(aside))
        rename_file(self._path, aside)
        return ()
