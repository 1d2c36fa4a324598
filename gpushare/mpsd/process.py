"""The control daemon of one card as a process: started, asked, told to end.

What belongs here: processes and folders. What does not: when that is done (``supervisor``), and what is
said (``control``).
"""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from contextlib import suppress
from pathlib import Path
from typing import Final

from gpushare.errors import GpuError
from gpushare.mps.layout import logs_of, pipes_of
from gpushare.mpsd.control import PROGRAM, environment

_ANSWER_S: Final = 5.0
_OPEN: Final = 0o755
_EVERYBODY: Final = 0o1777
"""A server runs as the user of its clients, and writes its log."""
_LONGEST_LOG: Final = 4 * 1024 * 1024
_TAIL: Final = 500
_WAY_OUT: Final = (
    "run this container with the NVIDIA runtime, which brings it with "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
)


class ControlDaemon:
    """The daemon of one card. ``state`` is the node's folder of all of them."""

    def __init__(self, state: Path, uuid: str) -> None:
        self._pipes = pipes_of(state, uuid)
        self._logs = logs_of(state, uuid)
        self._env = environment(os.environ, state, uuid)
        self._process: Process | None = None

    @property
    def running(self) -> bool:
        """Whether the process that was started last goes on."""
        return self._process is not None and self._process.returncode is None

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs, and where none was started."""
        return self._process.returncode if self._process else None

    async def start(self) -> None:
        """Start it. Raises GpuError where that fails."""
        try:
            for folder, mode in ((self._pipes, _OPEN), (self._logs, _EVERYBODY)):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(mode)
            self._process = await asyncio.create_subprocess_exec(
                PROGRAM, "-f", env=self._env, stdin=DEVNULL, stdout=DEVNULL
            )
        except FileNotFoundError as error:
            raise GpuError(f"{PROGRAM} was not found: {_WAY_OUT}") from error
        except OSError as error:
            raise GpuError(f"{PROGRAM} cannot be started: {error}") from error

    async def ask(self, command: str) -> str:
        """What the daemon answers. Raises GpuError where it is not there or does not answer in time."""
        try:
            client = await asyncio.create_subprocess_exec(
                PROGRAM, env=self._env, stdin=PIPE, stdout=PIPE, stderr=STDOUT
            )
        except OSError as error:
            raise GpuError(f"{PROGRAM} cannot be asked: {error.strerror}: {_WAY_OUT}") from error
        try:
            async with asyncio.timeout(_ANSWER_S):
                output, _ = await client.communicate(f"{command}\n".encode())
        except TimeoutError:
            raise GpuError(f"it does not answer {command!r} within {_ANSWER_S:g} s") from None
        finally:
            if client.returncode is None:
                client.kill()
                await client.wait()
        answer = output.decode(errors="replace").strip()
        if client.returncode:
            raise GpuError(f"{command!r} ended with {client.returncode}: {answer}")
        return answer

    async def ended(self, timeout_s: float) -> None:
        """Return when the process has ended, or after that time."""
        if not self._process or not self.running:
            await asyncio.sleep(timeout_s)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._process.wait()

    async def end(self, timeout_s: float) -> None:
        """Return when the process has ended; it is killed after that time."""
        if self._process and self.running:
            await self.ended(timeout_s)
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def trim_logs(self) -> None:
        """Empty logs that have grown: they lie in memory, and nobody else ends them. Raises OSError."""
        for path in self._logs.glob("*.log"):
            if path.stat().st_size > _LONGEST_LOG:
                os.truncate(path, 0)

    def last_words(self) -> str:
        """The end of its log."""
        try:
            return (self._logs / "control.log").read_text(errors="replace")[-_TAIL:].strip()
        except OSError as error:
            return f"no log: {error.strerror}"
