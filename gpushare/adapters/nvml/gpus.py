"""The GPUs of this machine, for daemons: the driver ports over one NVML thread."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypeVar

import structlog

from gpushare.adapters.nvml.events import Events
from gpushare.adapters.nvml.facts import read_facts
from gpushare.adapters.nvml.library import Library
from gpushare.adapters.nvml.meter import Meter
from gpushare.adapters.nvml.processes import ProcessMeter
from gpushare.adapters.nvml.reading import bound_gpus, read_inventory, set_exclusive
from gpushare.adapters.nvml.replacement import Mismatch, ReplacementPolicy
from gpushare.adapters.nvml.worker import Worker
from gpushare.errors import DriverReplacedError, GpuError
from gpushare.model.hardware import Fault, GpuFacts, Inventory
from gpushare.model.readings import ProcessReading, Readings

log = structlog.get_logger()
T = TypeVar("T")

_CLOSE_S: Final = 1.0
_REPLACEMENT: Final = ReplacementPolicy()


class Nvml:
    """Implements the driver of ``gpushare.ports``. Use as an async context manager.

    The first call opens the library; it is reopened after a failure. ``timeout_s`` limits one NVML function,
    ``poll_s`` is the interval between polls for XID errors, ``reopen_s`` the minimum time between two
    openings after a GPU was lost, ``driver_root`` the folder below which the library is. Every method raises
    DriverReplacedError once it is certain, by ``replacement``, that the kernel driver was replaced.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 10.0,
        poll_s: float = 1.0,
        reopen_s: float = 120.0,
        replacement: ReplacementPolicy = _REPLACEMENT,
        sysfs: Path = Path("/sys"),
        driver_root: Path | None = None,
    ) -> None:
        self._worker = Worker(timeout_s)
        self._library = Library(self._worker.calling, reopen_s, driver_root)
        self._events = Events()
        self._meter = Meter(self._events)
        self._processes = ProcessMeter()
        self._mismatch = Mismatch()
        self._replacement = replacement
        self._poll_s = poll_s
        self._sysfs = sysfs
        self._known: frozenset[str] = frozenset()
        self._bound: frozenset[str] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Shut NVML down; if it hangs, leave it."""
        with suppress(GpuError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._worker.run(self._library.close)
        self._worker.close()

    async def run(self, job: Callable[[Library], T]) -> T:
        """Run ``job`` with the open library on the NVML thread and return its result. Raises GpuError."""

        def opened() -> T:
            try:
                self._library.ensure()
                return job(self._library)
            finally:
                self._check_replaced()

        return await self._worker.run(opened)

    def _check_replaced(self) -> None:
        """Raises DriverReplacedError if several readings have reported a mismatch."""
        now = time.monotonic()
        self._mismatch = self._mismatch.after(now, mismatched=self._library.mismatched)
        if self._mismatch.is_confirmed(now, self._replacement, opened=self._library.opened > 0):
            raise DriverReplacedError(
                f"the NVIDIA kernel driver was replaced {now - self._mismatch.since:.0f} s ago: the NVML "
                "library that this process has loaded is of another version, and only a restart loads the "
                "new one"
            )

    async def inventory(self) -> Inventory:
        """Read all GPUs, also those that were added since the last call."""
        inventory = await self._run_on_all(lambda library: read_inventory(library, self._sysfs))
        self._known |= {gpu.uuid for gpu in inventory.gpus}
        return inventory

    async def _run_on_all(self, job: Callable[[Library], T]) -> T:
        """Like ``run``, with a library that knows the GPUs that were added since the last call."""

        def reopened(library: Library) -> T:
            bound = bound_gpus(self._sysfs)
            if self._bound not in (None, bound):
                library.reopen()
            self._bound = bound
            return job(library)

        return await self.run(reopened)

    async def facts(self) -> Mapping[str, GpuFacts]:
        """Return what the driver answers about the health of the GPUs of all inventories, by UUID."""
        return await self.run(lambda library: read_facts(library, self._known))

    async def set_exclusive(self, uuid: str, *, exclusive: bool) -> None:
        """Set the GPU's compute mode to Exclusive_Process or Default."""
        await self.run(lambda library: set_exclusive(library, uuid, exclusive=exclusive))

    async def readings(self) -> Readings:
        """Read sensors and processes of all GPUs, also those that were added since the last call.

        Consumes XID errors: do not combine with ``faults``.
        """
        return await self._run_on_all(self._meter.read)

    async def processes(self) -> Mapping[str, tuple[ProcessReading, ...]]:
        """Return the processes and their utilization by GPU UUID. It does not consume XID errors."""
        return await self.run(self._processes.read)

    async def faults(self) -> AsyncIterator[Fault]:
        """Yield XID errors in the order in which the driver reports them."""
        silent = False
        while True:
            supported = True
            try:
                supported = await self.run(self._events.poll)
            except GpuError as error:
                if not silent:
                    log.warning("xids_unavailable", error=str(error))
                silent = True
            else:
                silent = False
            for fault in self._events.take():
                yield fault
            if not supported:
                log.warning("xids_unsupported", effect="a GPU is judged by polls alone")
                return
            await asyncio.sleep(self._poll_s)
