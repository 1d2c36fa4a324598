"""A container's isolation without a container: limit file, region, the library, and a stub driver.

What belongs here: building the library for a test's own folder and running programs under it. What does
not: the facts under test (``tests/isolation``).
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gpushare.isolation import limits, region, regulator
from testbed.cuda import CudaCard, CudaStub

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "gpushare" / "isolation" / "native"
MIB = 1 << 20
UUID = "GPU-00000000-1111-2222-3333-444444444444"

needs_compiler = pytest.mark.needs("compiler", "make")

# What a client in Python begins with: the driver by ctypes, a context, and shorthands.
PRELUDE = """
import ctypes as c, os, sys, json
MIB = 1 << 20
cuda = c.CDLL("libcuda.so.1")
def context():
    held = c.c_void_p()
    v = cuda.cuDevicePrimaryCtxRetain(c.byref(held), 0)
    cuda.cuCtxSetCurrent(held)
    return v
def alloc(mib):
    at = c.c_uint64()
    return cuda.cuMemAlloc_v2(c.byref(at), c.c_size_t(int(mib * MIB))), at
def free(at): return cuda.cuMemFree_v2(at)
def left():
    free_now, total = c.c_size_t(), c.c_size_t()
    v = cuda.cuMemGetInfo_v2(c.byref(free_now), c.byref(total))
    return v, free_now.value // MIB, total.value // MIB
def launch(ns, threads=32, stream=None):
    shape = (threads // 32, 1, 1, 32, 1, 1)
    return cuda.cuLaunchKernel(c.c_void_p(int(ns)), *shape, 0, stream, None, None)
def say(*words): print(json.dumps(words), flush=True)
cuda.cuInit(0)
"""


LIBRARY = "libgpushare.so"
LAUNCH_LIBRARY = "libgpushare-launch.so"


def build(out: Path, folder: Path, *extra: str, compiler: str = "gcc") -> Path:
    """Both libraries for containers whose files are in ``folder``, with compiler flags in ``extra``.

    Returns the one for memory; the other is beside it.
    """
    out.mkdir(parents=True, exist_ok=True)
    given = [
        f"CC={compiler}",
        f"OUT={out}",
        f"FOLDER={folder}",
        f"OWNER={os.getuid()}",
        f"EXTRA={' '.join(extra)}",
    ]
    done = subprocess.run(  # noqa: S603 - our own Makefile
        ["make", "-s", "-j2", "-C", str(NATIVE), *given],  # noqa: S607 - the make that PATH has
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out / LIBRARY


class Preloaded:
    """One container on the machine's own driver; files are in ``folder``, for which ``library`` was built."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder, self.library = folder, library

    def limit(self, *cards: limits.CardLimit) -> None:
        """Give the container these limits, and a region that nobody has begun."""
        self.write_limit(limits.text(cards))
        self.shared.write_bytes(region.empty())

    def write_limit(self, text: str | bytes) -> None:
        """A limit file of any content."""
        path = self.folder / "limit"
        path.unlink(missing_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o444)

    @property
    def shared(self) -> Path:
        """The file that the container's processes share."""
        return self.folder / "region"

    def write(self, *writes: region.Write) -> None:
        """Write into the region as the node agent does."""
        with self.shared.open("r+b", buffering=0) as file:
            for each in writes:
                os.pwrite(file.fileno(), each.content, each.at)

    def seen(self) -> region.Region:
        """What the region says."""
        found = region.read(self.shared.read_bytes)
        assert found is not None
        return found

    @property
    def env(self) -> dict[str, str]:
        """What a process of the container has in its environment."""
        return {**os.environ, "LD_PRELOAD": str(self.library)}

    def run(self, command: Sequence[str], **env: str) -> "subprocess.CompletedProcess[str]":
        """Run a program to its end."""
        return subprocess.run(  # noqa: S603 - our own program
            list(command),
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def python(self, code: str, env: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a client in Python to its end; it must end well."""
        done = self.run([sys.executable, "-S", "-c", PRELUDE + code], **(env or {}))
        assert done.returncode == 0, done.stderr
        return done

    def start(self, code: str) -> "subprocess.Popen[str]":
        """Begin a client in Python that is talked to by its pipes."""
        return subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-S", "-c", PRELUDE + code],
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


class Container(Preloaded):
    """One container on cards of a stub driver."""

    def __init__(self, folder: Path, library: Path, stub: CudaStub) -> None:
        super().__init__(folder, library)
        self.stub = stub

    @property
    def env(self) -> dict[str, str]:
        """What a process of the container has in its environment, and nothing of the test's own."""
        return {"PATH": os.environ["PATH"], "LD_PRELOAD": str(self.library), **self.stub.env}


def card(total_mib: int = 16130, context_mib: int = 0) -> CudaCard:
    """The card of these tests as the stub has it."""
    return CudaCard(UUID, total_mib, context_mib)


def share(
    units: int, card_units: int, card_mib: int = 16130, context_mib: int = 0, core_percent: int = 0
) -> limits.CardLimit:
    """Units of that card, and a part of its time."""
    return limits.CardLimit(UUID, card_mib, units, card_units, context_mib, core_percent)


class Regulator:
    """Plays the node agent for one container: measures what it does on the card and sets its rate.

    The busy time is the stub driver's, where the agent has NVML's.
    """

    def __init__(self, container: Container, percent: int) -> None:
        self.container, self.percent = container, percent
        self._last = (time.monotonic_ns(), 0, 0)

    def busy_ns(self) -> int:
        """How long the card has worked for the container's processes."""
        pids = {process.pid for process in self.container.seen().processes}
        return sum(ns for pid, ns in self.container.stub.busy_ns(0).items() if pid in pids)

    def step(self) -> None:
        """Take a sample and write the rate that follows."""
        (use,) = self.container.seen().cards
        now = (time.monotonic_ns(), self.busy_ns(), use.spent)
        sample = regulator.LaunchSample(*(new - old for new, old in zip(now, self._last, strict=True)))
        rate = regulator.rate(self.percent, sample, use.rate)
        self.container.write(*region.rate_writes(0, rate, now[0]))
        self._last = now
