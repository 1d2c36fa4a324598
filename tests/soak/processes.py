"""The processes of a soak: stopped and frozen on purpose, and started again as the kubelet does.

What belongs here: which processes should run, and starting those. What does not: when they stop.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from testbed import DevkitError, Process, until

_POLL_S = 0.1
_ALL_RUN_S = 120.0


@dataclass
class Keeper:
    """Starts every process that has ended, except those that are stopped on purpose.

    ``exits`` counts the processes that ended by themselves.
    """

    processes: dict[str, Process]
    exits: Counter[str] = field(default_factory=Counter)
    _down: set[str] = field(default_factory=set)
    _ended: set[str] = field(default_factory=set)
    """Ended on purpose, and not started since."""
    _starting: set[str] = field(default_factory=set)

    async def end(self, name: str, *, kill: bool) -> None:
        """End a process, which stays down until ``start``."""
        self._down.add(name)
        self._ended.add(name)
        process = self.processes[name]
        if kill and process.running:
            process.kill(signal.SIGKILL)
            await process.wait()
        else:
            await process.stop()

    async def start(self, name: str) -> None:
        """Let a process start again; it may not be ready when this returns."""
        self._down.discard(name)

    async def freeze(self, name: str) -> None:
        """Suspend a process."""
        await self.processes[name].pause()

    async def resume(self, name: str) -> None:
        """Continue it."""
        await self.processes[name].resume()

    async def all_run(self) -> None:
        """Wait until every process runs and is ready."""

        async def ready() -> bool:
            return all(each.running for each in self.processes.values()) and not self._starting

        await until(ready, "all processes to run", _ALL_RUN_S)

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Start ended processes while the body runs."""
        tasks = [asyncio.create_task(self._keep(name, each)) for name, each in self.processes.items()]
        try:
            yield
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, process: Process) -> None:
        while True:
            if name not in self._down and not process.running:
                if name not in self._ended:
                    self.exits[name] += 1
                self._ended.discard(name)
                self._starting.add(name)
                # One that is not ready in time, or ends meanwhile, is started again.
                with suppress(DevkitError):
                    await process.start()
                self._starting.discard(name)
            await asyncio.sleep(_POLL_S)
