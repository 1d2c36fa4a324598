"""The cards of this machine, for daemons: the ports of the driver over one NVML thread."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import structlog

from gpushare.adapters.nvml.events import Events
from gpushare.adapters.nvml.library import Library
from gpushare.adapters.nvml.meter import Meter
from gpushare.adapters.nvml.processes import ProcessMeter
from gpushare.adapters.nvml.reading import ailing, read_inventory, set_exclusive
from gpushare.adapters.nvml.worker import Worker
from gpushare.errors import GpuError
from gpushare.model.hardware import Fault, Inventory
from gpushare.model.readings import ProcessReading, Readings

log = structlog.get_logger()
T = TypeVar("T")

_CLOSE_S: Final = 1.0


class Nvml:
    """Implements the driver of ``gpushare.ports``. Use as an async context manager.

    The library is opened by the first call, and again after it failed. ``timeout_s`` is how long one
    function of NVML may take, ``poll_s`` how often XID errors are asked for, ``reopen_s`` how long the
    library stays open at least after a card was lost.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 10.0,
        poll_s: float = 1.0,
        reopen_s: float = 120.0,
        sysfs: Path = Path("/sys"),
    ) -> None:
        self._worker = Worker(timeout_s)
        self._library = Library(self._worker.calling, reopen_s)
        self._events = Events()
        self._meter = Meter(self._events)
        self._processes = ProcessMeter()
        self._poll_s = poll_s
        self._sysfs = sysfs
        self._known: tuple[str, ...] = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Shut NVML down; one that hangs is left to itself."""
        with suppress(GpuError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._worker.run(self._library.close)
        self._worker.close()

    async def ask(self, job: Callable[[Library], T]) -> T:
        """What ``job`` makes of the open library, on NVML's thread. Raises GpuError."""

        def opened() -> T:
            self._library.ensure()
            return job(self._library)

        return await self._worker.run(opened)

    async def inventory(self) -> Inventory:
        """All cards, read afresh."""
        inventory = await self.ask(lambda library: read_inventory(library, self._sysfs))
        self._known = tuple(gpu.uuid for gpu in inventory.gpus)
        return inventory

    async def ailing(self) -> Mapping[str, str]:
        """Those cards of the last inventory that do not answer as they should."""
        return await self.ask(lambda library: ailing(library, self._known))

    async def set_exclusive(self, uuid: str, *, exclusive: bool) -> None:
        """Set the card's compute mode to Exclusive_Process, or to Default."""
        await self.ask(lambda library: set_exclusive(library, uuid, exclusive=exclusive))

    async def readings(self) -> Readings:
        """What all cards do now. It takes the XID errors, so ``faults`` is for others."""
        return await self.ask(self._meter.read)

    async def processes(self) -> Mapping[str, tuple[ProcessReading, ...]]:
        """The processes of all cards that list them, and what each does. It leaves XID errors alone."""
        return await self.ask(self._processes.read)

    async def faults(self) -> AsyncIterator[Fault]:
        """XID errors, in the order in which the driver reports them."""
        silent = False
        while True:
            found: list[Fault] | None = []
            try:
                found = await self.ask(self._events.drain)
            except GpuError as error:
                if not silent:
                    log.warning("xids_unavailable", error=str(error))
                silent = True
            else:
                silent = False
            if found is None:
                log.warning("xids_unsupported", consequence="card health is judged by liveness alone")
                return
            for fault in found:
                yield fault
            await asyncio.sleep(self._poll_s)
