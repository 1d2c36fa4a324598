"""Programs that run beside each other and end with this process, with all that they started.

Each job is a separate process group, with its output in a file. What does not belong here: which programs
run (``tools.suite.run``).
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

import psutil

from devkit.process import exit_of

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_ENDING: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
GRACE_S = 60.0
"""Time to stop clusters and hosts after SIGTERM."""
_LIBC: Final = ctypes.CDLL(None)


class StoppedError(Exception):
    """A signal has asked this process to end; the message is its name."""


async def until_stopped() -> NoReturn:
    """Raise StoppedError at the first signal that asks to end, also if the parent ignores interrupts.

    A shell starts background jobs with SIGINT and SIGQUIT ignored, children inherit that, and no shell can
    restore them (POSIX, Shell Command Language, 2.12). nohup ignores SIGHUP, on purpose.
    """
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[str] = loop.create_future()
    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, _resolve, stopped, number.name)
    raise StoppedError(await stopped)


def _resolve(future: "asyncio.Future[str]", name: str) -> None:
    if not future.done():
        future.set_result(name)


def start(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start a program with its output in ``log``; the kernel terminates it if this process is killed."""
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - commands of the project
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            process_group=0,
            preexec_fn=_terminate_with_parent,  # noqa: PLW1509 - this process has one thread
        )


def _terminate_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


async def ended(popen: "subprocess.Popen[bytes]", timeout_s: float) -> int:
    """Return the exit status of a job, which is ended after ``timeout_s`` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await exit_of(popen.pid)
    _end_groups([popen])
    return popen.wait()


def reap_orphans(jobs: Collection["subprocess.Popen[bytes]"]) -> None:
    """Collect the exit status of ended descendants whose parents ended before them."""
    own = {popen.pid for popen in jobs}
    with suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid in own:
                return
            os.waitpid(found.si_pid, 0)


def descendants() -> list[psutil.Process]:
    """Return the running descendants of this process."""
    found = psutil.Process().children(recursive=True)
    return [each for each in found if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def described(processes: Collection[psutil.Process]) -> list[str]:
    """Return one line for each process."""
    lines = []
    for each in processes:
        with suppress(psutil.Error):
            lines.append(f"{each.pid} {' '.join(each.cmdline()) or each.name()}")
    return lines


@contextmanager
def contained() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """End the jobs of the yielded list, and all their descendants, at the end of the block.

    First the groups of the jobs get SIGTERM and time to clean up, then what they left behind. A descendant
    whose parent has ended becomes a child of this process, whatever its session.
    """
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    jobs: list[subprocess.Popen[bytes]] = []
    try:
        yield jobs
    finally:
        for number in _ENDING:
            # A second signal must not leave processes behind.
            signal.signal(number, signal.SIG_IGN)
        _end_groups(jobs)
        _end(psutil.Process().children(recursive=True))


def _end_groups(jobs: Collection["subprocess.Popen[bytes]"]) -> None:
    running = [popen for popen in jobs if popen.poll() is None]
    for popen in running:
        os.killpg(popen.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    for popen in running:
        with suppress(subprocess.TimeoutExpired):
            popen.wait(max(deadline - time.monotonic(), 0))
        with suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)


def _end(processes: Sequence[psutil.Process]) -> None:
    for each in processes:
        with suppress(psutil.Error):
            each.terminate()
    _, left = psutil.wait_procs(processes, timeout=5)
    for each in left:
        with suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(left, timeout=5)
