"""The XID errors after which GPUs wait for a reset, on disk: a restart of the agent forgets none of them.

A JSON file beside the record of allocations. It is valid for one start of the kernel driver: a reboot or a
reload of the driver initialises the GPUs. A reset of a single GPU leaves no trace that a driver without
recovery actions reports, so after one the administrator deletes the file while the agent does not run.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import structlog

from gpushare.adapters.files import read_file, replace_file
from gpushare.contract import FAULT_RECORD
from gpushare.errors import ConfigError

log = structlog.get_logger()


class _Document(msgspec.Struct):
    driver_start: str
    xids: dict[str, int]


class FaultRecord:
    """The record of one node, in ``folder``. ``driver_start`` returns which start of the driver this is."""

    def __init__(self, folder: Path, driver_start: Callable[[], str]) -> None:
        self._path = folder / Path(FAULT_RECORD).name
        self._driver_start = driver_start
        self._start = ""
        self._written: Mapping[str, int] | None = None
        self._problem: str | None = None

    def read(self) -> Mapping[str, int]:
        """The recorded XID by UUID; empty if they are of an earlier start of the driver.

        A file that cannot be decoded is logged, and replaced by the next write. Raises ConfigError if it
        cannot be read.
        """
        self._start = self._driver_start()
        text = read_file(self._path)
        self._written = {} if text is None else self._valid(text)
        return self._written or {}

    def _valid(self, text: bytes) -> Mapping[str, int] | None:
        try:
            document = msgspec.json.decode(text, type=_Document)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.error("fault_record_unreadable", path=str(self._path), problem=str(error))  # noqa: TRY400 - the cause is in the text
            return None
        return document.xids if document.driver_start == self._start else None

    def driver_has_started(self) -> bool:
        """Whether the driver was loaded again since the last call; the record must then be written again."""
        before, self._start = self._start, self._driver_start()
        if before != self._start:
            self._written = None
        return before != self._start

    async def write(self, xids: Mapping[str, int]) -> None:
        """Write these XIDs durably, unless they are written. A failure is logged; the next call retries."""
        if xids == self._written:
            return
        content = msgspec.json.encode(_Document(self._start, dict(xids)))
        try:
            await asyncio.to_thread(replace_file, self._path, content)
        except ConfigError as error:
            self._report(str(error))
        else:
            self._report(None)
            self._written = dict(xids)

    def _report(self, problem: str | None) -> None:
        before, self._problem = self._problem, problem
        if problem and problem != before:
            effect = "a restart of the agent opens GPUs that wait for a reset"
            log.error("fault_record_not_written", reason=problem, effect=effect)
