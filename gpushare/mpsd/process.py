"""The control daemon of one GPU as a process: start, query, stop, logs.

``supervisor`` decides when, ``control`` has the commands.
"""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from contextlib import suppress
from pathlib import Path
from typing import Final

from gpushare.errors import GpuError, cause_of
from gpushare.mps.layout import logs_of, pipes_of
from gpushare.mpsd.control import PROGRAM, environment

_PIPES_MODE: Final = 0o755
_LOGS_MODE: Final = 0o1777
"""Servers run as the user of their clients and write their own logs."""
_MAX_LOG_BYTES: Final = 4 * 1024 * 1024
_TAIL_CHARACTERS: Final = 500
_HINT: Final = (
    "run this container with the NVIDIA runtime and NVIDIA_DRIVER_CAPABILITIES=compute,utility, which "
    "provide it"
)


class ControlDaemon:
    """The control daemon of one GPU. ``state`` is the directory of all control daemons of the node.

    A query fails if the answer takes longer than ``answer_s`` seconds.
    """

    def __init__(self, state: Path, uuid: str, *, answer_s: float = 5.0) -> None:
        self._pipes = pipes_of(state, uuid)
        self._logs = logs_of(state, uuid)
        self._env = environment(os.environ, state, uuid)
        self._answer_s = answer_s
        self._process: Process | None = None

    @property
    def running(self) -> bool:
        """Whether the last started process is still running."""
        return self._process is not None and self._process.returncode is None

    @property
    def code(self) -> int | None:
        """Exit code of the last started process; None while it runs or if none was started."""
        return self._process.returncode if self._process else None

    async def start(self) -> None:
        """Start the process. Raises GpuError."""
        try:
            for folder, mode in ((self._pipes, _PIPES_MODE), (self._logs, _LOGS_MODE)):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(mode)
            self._process = await asyncio.create_subprocess_exec(
                PROGRAM, "-f", env=self._env, stdin=DEVNULL, stdout=DEVNULL
            )
        except FileNotFoundError as error:
            raise GpuError(f"{PROGRAM} was not found: {_HINT}") from error
        except OSError as error:
            raise GpuError(f"{PROGRAM} cannot be started: {cause_of(error)}") from error

    async def query(self, command: str) -> str:
        """The daemon's answer. Raises GpuError if it is not running or does not answer in time."""
        try:
            client = await asyncio.create_subprocess_exec(
                PROGRAM, env=self._env, stdin=PIPE, stdout=PIPE, stderr=STDOUT
            )
        except OSError as error:
            raise GpuError(f"cannot run {PROGRAM}: {error.strerror}: {_HINT}") from error
        try:
            async with asyncio.timeout(self._answer_s):
                output, _ = await client.communicate(f"{command}\n".encode())
        except TimeoutError:
            limit = f"{self._answer_s:g} s"
            raise GpuError(f"the control daemon does not answer {command!r} within {limit}") from None
        finally:
            if client.returncode is None:
                client.kill()
                await client.wait()
        answer = output.decode(errors="replace").strip()
        if client.returncode:
            raise GpuError(f"{command!r} failed with exit code {client.returncode}: {answer}")
        return answer

    async def wait(self, timeout_s: float) -> None:
        """Return when the process has ended, or after that time."""
        if not self._process or not self.running:
            await asyncio.sleep(timeout_s)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._process.wait()

    async def wait_or_kill(self, timeout_s: float) -> None:
        """Wait for the end of the process, and kill it after that time."""
        if self._process and self.running:
            await self.wait(timeout_s)
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def trim_logs(self) -> None:
        """Empty large logs: they are in memory, and nothing else rotates them. Raises OSError."""
        for path in self._logs.glob("*.log"):
            if path.stat().st_size > _MAX_LOG_BYTES:
                os.truncate(path, 0)

    def log_tail(self) -> str:
        """The last characters of the control daemon's log."""
        try:
            return (self._logs / "control.log").read_text(errors="replace")[-_TAIL_CHARACTERS:].strip()
        except OSError as error:
            return f"no log: {error.strerror}"
