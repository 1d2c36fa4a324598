"""The agent's memory on disk: every grant, written before its answer leaves.

One JSON file, replaced as a whole. It lies in a folder of its own under the kubelet's folder of device
plugins, where the kubelet removes sockets and nothing else, so that the original's manifest needs no
further mount.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import structlog

from gpushare.adapters.files import read_file, rename_file, replace_file
from gpushare.deviceplugin.core.allocations import Allocation, Enforcement, Key

log = structlog.get_logger()

_VERSION: Final = 1


class _StoredAllocation(msgspec.Struct):
    """An allocation with the keys of the file; their names and order are part of the format."""

    uid: str
    container: str
    pod: str
    cards: tuple[tuple[str, int], ...]
    first_device_id: str = msgspec.field(name="lead")
    core: int = 0
    total: int = 0
    at_ns: int = 0
    confirmed: bool = msgspec.field(default=False, name="sure")
    diverged: bool = msgspec.field(default=False, name="astray")
    reissued: bool = msgspec.field(default=False, name="again")
    enforcement: Enforcement | None = msgspec.field(default=None, name="hold")


class _RecordDocument(msgspec.Struct):
    version: int
    unit: str
    grants: list[_StoredAllocation]


def _stored(allocation: Allocation) -> _StoredAllocation:
    return msgspec.convert(allocation, _StoredAllocation, from_attributes=True)


def _loaded(stored: _StoredAllocation) -> Allocation:
    return Allocation(**msgspec.structs.asdict(stored))


class Record:
    """The file of one node; ``unit`` is what its amounts count. Raises ConfigError for an unusable folder.

    ``kept_unit`` is the unit of the file that was read, None where there was none.
    """

    def __init__(self, folder: Path, unit: str) -> None:
        self._path = folder / "grants.json"
        self._unit = unit
        self._turn = asyncio.Lock()
        self._kept: Mapping[Key, Allocation] | None = None
        self.kept_unit: str | None = None

    def read(self) -> tuple[Allocation, ...]:
        """All grants; none where there is no file.

        A file that cannot be understood is put aside under another name: what it held is known from
        the kubelet's checkpoint, and an agent that does not start would help nobody.
        """
        text = read_file(self._path)
        if text is None:
            return ()
        try:
            file = msgspec.json.decode(text, type=_RecordDocument)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return self._put_aside(str(error))
        if file.version != _VERSION:
            return self._put_aside(f"its version is {file.version}, known is {_VERSION}")
        self.kept_unit = file.unit
        return tuple(_loaded(each) for each in file.grants)

    async def keep(self, grants: Callable[[], Mapping[Key, Allocation]]) -> None:
        """Have the grants on the disk as they are when their turn comes, durably, before returning.

        A caller that is cancelled waits for the write all the same: the next one must not meet it.
        """
        async with self._turn:
            current = grants()
            if current is self._kept:
                return
            content = msgspec.json.encode(
                _RecordDocument(_VERSION, self._unit, [_stored(each) for each in current.values()])
            )
            writing = asyncio.ensure_future(asyncio.to_thread(replace_file, self._path, content))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await asyncio.wait({writing})
                raise
            self._kept = current

    def _put_aside(self, problem: str) -> tuple[Allocation, ...]:
        aside = self._path.with_suffix(".unreadable")
        log.error("record_unreadable", path=str(self._path), problem=problem, moved_to=str(aside))
        rename_file(self._path, aside)
        return ()
