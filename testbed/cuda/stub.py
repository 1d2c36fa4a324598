"""A stub CUDA driver for a test: its GPUs and their usage.

What belongs here: the library of a driver era, the file of GPUs and the file of counters. What does not: the
C source (``native/``). Like with a driver, memory of exited processes is free.
"""

import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testbed.cuda.eras import functions, unexported
from testbed.nvml.build import check_era
from testbed.nvml.eras import ERAS, NEWEST
from testbed.programs.compiling import EXPORTS, Source, compiled

SONAME: Final = "libcuda.so.1"
_FOR_TESTS: Final = (
    "stub_graph_launch_on_device",
    "stub_pools_hold",
    "stub_pools_let",
    "stub_pools_wait",
    "stub_pools_waiting",
)
"""Functions that the real driver does not have: what a GPU does without a call of the host, and when."""
INSIDE: Final = "/run/stub-cuda"
"""The folder of a stub in containers, where the library looks for its GPUs by default."""
_CARDS: Final = "cards"
_NATIVE: Final = Path(__file__).parent / "native"
_MAX_CARDS: Final = 16
_MAX_USERS: Final = 1280
_HEADER: Final = struct.Struct(f"<Q{_MAX_CARDS}Q{_MAX_CARDS}Q")
"""Number of users; peak and end of work by card."""
_USER: Final = struct.Struct(f"<QQ{_MAX_CARDS}Q{_MAX_CARDS}Q{_MAX_CARDS}Q")
"""PID and program; bytes, ns, and bytes of managed memory by card."""
_FLOCK: Final = struct.Struct("@hhqqi0q")  # struct flock of 64-bit Linux


@dataclass(frozen=True, slots=True)
class CudaCard:
    """A GPU of ``total_mib``; each context uses ``context_mib`` of it."""

    uuid: str
    total_mib: int
    context_mib: int = 0
    name: str = "Stub"


@dataclass(frozen=True, slots=True)
class CudaUser:
    """A running process: its PID as the caller sees it, its bytes and its compute time in ns by GPU.

    ``managed`` are the bytes of managed memory among ``used``.
    """

    pid: int
    used: tuple[int, ...]
    busy_ns: tuple[int, ...]
    managed: tuple[int, ...] = (0,) * _MAX_CARDS


class CudaStub:
    """The GPUs of one machine, in ``folder``; ``compiler`` compiles for that machine."""

    def __init__(
        self, folder: Path, *, cards: Sequence[CudaCard], era: int = NEWEST, compiler: str = "gcc"
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.library = _library(era, compiler)
        self._cards = folder.absolute() / _CARDS
        self._cards.write_text("".join(f"{c.uuid} {c.total_mib} {c.context_mib} {c.name}\n" for c in cards))
        self._usage = self._cards.with_name("cards.usage")
        self._usage.write_bytes(bytes(_HEADER.size + _MAX_USERS * _USER.size))
        for path in (self._cards, self._usage):
            # Like the device files of the driver: any user may use a GPU.
            path.chmod(0o666)

    @property
    def folder(self) -> Path:
        """The folder of the GPUs and their usage."""
        return self._cards.parent

    @property
    def env(self) -> dict[str, str]:
        """Environment variables of a process that uses these GPUs."""
        folders = [str(self.library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        return {"LD_LIBRARY_PATH": ":".join(filter(None, folders)), "STUB_CUDA": str(self._cards)}

    def peak(self, card: int) -> int:
        """Return the peak of the used bytes of a GPU, summed over running processes."""
        _, *numbers = _HEADER.unpack_from(self._usage.read_bytes())
        return int(numbers[card])

    def used(self, card: int) -> int:
        """Return the bytes of a GPU that running processes use."""
        return sum(user.used[card] for user in self.users())

    def busy_ns(self, card: int) -> dict[int, int]:
        """Return the compute time of each process on a GPU in ns, by PID; includes exited processes."""
        return {pid: numbers[_MAX_CARDS + card] for _, pid, numbers in self._entries()}

    def worked_ns(self, card: int) -> tuple[int, ...]:
        """Return the same in start order, without PIDs: containers may have equal PIDs."""
        return tuple(numbers[_MAX_CARDS + card] for _, _, numbers in self._entries())

    def users(self) -> list[CudaUser]:
        """Return the running processes that use the GPUs, those in containers too."""
        with self._usage.open("rb") as file:
            return [
                CudaUser(
                    pid, *(tuple(numbers[at : at + _MAX_CARDS]) for at in range(0, len(numbers), _MAX_CARDS))
                )
                for place, _, numbers in self._entries()
                if (pid := _holder(file.fileno(), place))
            ]

    def _entries(self) -> Iterator[tuple[int, int, list[int]]]:
        """Yield (position, PID in the namespace of the process, its numbers), also of exited processes."""
        entries = _USER.iter_unpack(self._usage.read_bytes()[_HEADER.size :])
        for place, (pid, _, *numbers) in enumerate(entries):
            if pid:
                yield place, pid, numbers


def _holder(usage: int, place: int) -> int:
    """Return the PID of the process that locks its entry; 0 if it has exited."""
    byte = _HEADER.size + _MAX_USERS * _USER.size + place
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(usage, fcntl.F_GETLK, asked))
    return 0 if kind == fcntl.F_UNLCK else int(pid)


def _library(era: int, compiler: str) -> Path:
    """Return the stub of an era; compile it first if it is not in the cache.

    Raises ConfigError for an unknown era, and DevkitError with the output of the compiler.
    """
    check_era(era)
    version = ERAS[era].cuda
    names = functions(version)
    generated = {
        EXPORTS: _exports((*names, *_FOR_TESTS)),
        "functions.h": "".join(f"F({name})\n" for name in (*names, *unexported(version))),
    }
    # Like in the real driver, calls within the library cannot be intercepted.
    flags = (f"-DSTUB_VERSION={version}", f'-DSTUB_CARDS="{INSIDE}/{_CARDS}"', "-Wl,-Bsymbolic")
    return compiled(Source(f"cuda-{era}", SONAME, _NATIVE, generated, flags, compiler))


def _exports(names: tuple[str, ...]) -> str:
    """Return a version script; like in the real library, the version has the name of the library."""
    listed = "".join(f"    {name};\n" for name in names)
    return f"{SONAME} {{\nglobal:\n{listed}local:\n    *;\n}};\n"
