"""One process of a testbed: start, readiness, signals, exit.

What belongs here: running a program. What does not: which programs a testbed runs
(``testbed.control_plane.bed``), and leftovers of an earlier testbed (``devkit.pids``).
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from devkit import pids
from devkit.errors import DevkitError, PortTaken
from devkit.waiting import timeout_factor, until

Ready = Callable[[], Awaitable[bool]]
_LAUNCHER = Path(__file__).with_name("launch.py")
_TAIL = 15
_PORT_TAKEN = "address already in use"


@dataclass(frozen=True)
class Command:
    """A program and its files.

    ``env`` is added to the environment of this process. ``bound`` processes are killed by the kernel
    when the thread that started them exits; others outlive it. ``ready`` is polled until it returns true.
    """

    name: str
    argv: Sequence[str]
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    ready: Ready | None = None
    ready_s: float = 60.0
    bound: bool = True

    @property
    def log(self) -> Path:
        """The log file with stdout and stderr; a restarted process appends."""
        return self.folder / "logs" / f"{self.name}.log"

    @property
    def pid_file(self) -> Path:
        """The pid file of the process."""
        return self.folder / "pids" / f"{self.name}.json"


class Process:
    """A program of a testbed with all its children, which end with it."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """Its name in the testbed."""
        return self.command.name

    @property
    def pid(self) -> int:
        """Its process ID; raises DevkitError if it was never started."""
        return self._child().pid

    @property
    def started(self) -> bool:
        """Whether it was ever started."""
        return self._popen is not None

    @property
    def running(self) -> bool:
        """Whether it was started and has not exited."""
        return self._popen is not None and not self._over()

    async def start(self) -> None:
        """Start it and wait until it is ready.

        Raises PortTaken if its port is in use, DevkitError with the end of its log if it exits or is not
        ready in ``ready_s`` seconds, and DevkitError if it is running already.
        """
        if self.running:
            raise DevkitError(f"{self.name} is already running as process {self.pid}: stop it first")
        self._popen = self._spawn()
        pids.write(self.command.pid_file, pids.record_of(self._popen.pid))
        if self.command.ready is None:
            return
        try:
            await self._until_ready(self.command.ready)
        except DevkitError:
            self.kill()
            raise

    async def stop(self, grace_s: float = 10.0) -> None:
        """Stop it: SIGTERM, then SIGKILL after ``grace_s`` seconds; no effect if it has exited."""
        if not self.running:
            return
        self.kill(signal.SIGTERM)
        # A stopped process would not handle the signal.
        self.kill(signal.SIGCONT)
        try:
            await self.wait(grace_s)
        except DevkitError:
            self.kill(signal.SIGKILL)
            await self.wait(grace_s)

    async def restart(self) -> None:
        """Stop it and start it again with the same command."""
        await self.stop()
        await self.start()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to it and its children; no effect if it has exited."""
        if self.running:
            os.killpg(self.pid, number)

    async def pause(self) -> None:
        """Suspend it (SIGSTOP): it keeps its connections and does not respond."""
        self.kill(signal.SIGSTOP)
        await until(lambda: self._is_suspended(wanted=True), f"{self.name} to be suspended")

    async def resume(self) -> None:
        """Continue it after ``pause``."""
        self.kill(signal.SIGCONT)
        await until(lambda: self._is_suspended(wanted=False), f"{self.name} to continue")

    async def wait(self, timeout_s: float = 60.0) -> int:
        """Return its exit status (negative: the signal that ended it) when its children have ended too.

        Raises DevkitError on timeout.
        """
        popen = self._child()
        if not self._over():
            try:
                await asyncio.wait_for(exit_of(popen.pid), timeout_s)
            except TimeoutError:
                raise DevkitError(
                    f"{self.name} (process {popen.pid}) did not exit in {timeout_s:g} s"
                ) from None
        self._over()
        # A child that was killed with it can still hold its ports.
        await until(self._is_group_over, f"the children of {self.name} to end", timeout_s)
        return popen.wait()

    async def _is_group_over(self) -> bool:
        return not pids.is_group_running(self.pid)

    def _child(self) -> "subprocess.Popen[bytes]":
        if self._popen is None:
            raise DevkitError(f"{self.name} was not started")
        return self._popen

    def _spawn(self) -> "subprocess.Popen[bytes]":
        command = self.command
        command.log.parent.mkdir(parents=True, exist_ok=True)
        launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid())] if command.bound else []
        with command.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                [*launcher, *command.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **command.env, pids.MARK: str(command.folder)},
                start_new_session=True,
            )

    async def _until_ready(self, ready: Ready) -> None:
        async def ready_or_over() -> bool:
            return self._over() or await ready()

        try:
            await until(ready_or_over, f"{self.name} to be ready", self.command.ready_s)
        except DevkitError as error:
            raise DevkitError(f"{error}; {self._log_text()}") from error
        if self._over():
            kind = PortTaken if _PORT_TAKEN in tail(self.command.log) else DevkitError
            raise kind(f"{self.name} ended with {self._child().returncode}; {self._log_text()}")

    async def _is_suspended(self, *, wanted: bool) -> bool:
        return self._over() or pids.is_suspended(self.pid) is wanted

    def _log_text(self) -> str:
        return f"its log is {self.command.log} and ends with:\n{tail(self.command.log)}"

    def _over(self) -> bool:
        """Return whether it has exited; kill its children before its PID can be reused."""
        popen = self._child()
        if popen.returncode is not None:
            return True
        if os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        self.command.pid_file.unlink(missing_ok=True)
        return True


async def run_text(
    argv: Sequence[str], timeout_s: float, *, cwd: Path | None = None, stdin: str | None = None
) -> str:
    """Run a short command and return its stdout; the factor of the environment applies to ``timeout_s``.

    Raises DevkitError if there is no such program, and with its stderr if it fails.
    """
    command, timeout_s = " ".join(argv), timeout_s * timeout_factor()
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise DevkitError(f"cannot run `{command}`: {error.strerror}") from None
    try:
        content = None if stdin is None else stdin.encode()
        out, err = await asyncio.wait_for(process.communicate(content), timeout_s)
    except TimeoutError:
        raise DevkitError(f"`{command}` did not exit in {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise DevkitError(f"`{command}` ended with {process.returncode}: {err.decode().strip()}")
    return out.decode()


def tail(log: Path, lines: int = _TAIL) -> str:
    """Return the last lines of a log."""
    with log.open(errors="replace") as stream:
        return "".join(deque(stream, lines)).rstrip()


async def exit_of(pid: int) -> None:
    """Wait until a child has exited; its exit status remains to be collected."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    descriptor = os.pidfd_open(pid)
    loop.add_reader(descriptor, _resolve, ended)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
