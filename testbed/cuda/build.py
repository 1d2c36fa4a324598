"""Compiling the stub: one ``libcuda.so.1`` per driver era, kept in the testbed's cache.

What belongs here: the compiler and the cache. What does not: which functions an era has (``eras``).
"""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from gpushare.errors import ConfigError
from testbed.cuda.eras import functions
from testbed.errors import TestbedError
from testbed.folders import cache_root
from testbed.nvml.eras import ERAS

SONAME: Final = "libcuda.so.1"
NATIVE: Final = Path(__file__).parent / "native"
# As the real driver's, calls within the library are not for others to intercept.
FLAGS: Final = (
    *("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"),
    *(f"-Wl,-soname,{SONAME}", "-Wl,-Bsymbolic"),
)
_COMPILE_S: Final = 120.0


def library(era: int, root: Path | None = None) -> Path:
    """The stub of that era, compiled first where the cache does not have it.

    Raises ConfigError for an unknown era, and TestbedError with the compiler's words.
    """
    if era not in ERAS:
        raise ConfigError(f"era {era} is unknown: choose one of {', '.join(map(str, ERAS))}")
    folder = (root or cache_root()) / "cuda" / f"{era}-{_digest(era)}"
    if not (folder / SONAME).exists():
        _build(era, folder)
    return folder / SONAME


def _exports(era: int) -> str:
    """The linker's version script. The version has the library's name, as that of the real one."""
    names = "".join(f"    {name};\n" for name in functions(ERAS[era].cuda))
    return f"{SONAME} {{\nglobal:\n{names}local:\n    *;\n}};\n"


def _digest(era: int) -> str:
    parts = [*FLAGS, _exports(era), *(path.read_text() for path in sorted(NATIVE.iterdir()))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _command(era: int, folder: Path) -> list[str]:
    gcc = shutil.which("gcc")
    if gcc is None:
        raise TestbedError("the stub CUDA needs a C compiler: install gcc (apt-get install gcc libc6-dev)")
    sources = [str(path) for path in sorted(NATIVE.glob("*.c"))]
    given = [f"-DSTUB_VERSION={ERAS[era].cuda}", f"-I{folder}", f"-Wl,--version-script={folder / 'exports'}"]
    return [gcc, *FLAGS, *given, "-o", str(folder / SONAME), *sources, "-lpthread"]


def _build(era: int, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Another process may build the same: each in its own folder, and the first to finish wins.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as made:
        fresh = Path(made) / "fresh"
        fresh.mkdir()
        (fresh / "exports").write_text(_exports(era))
        (fresh / "functions.h").write_text("".join(f"F({name})\n" for name in functions(ERAS[era].cuda)))
        done = subprocess.run(  # noqa: S603 - the compiler that PATH has
            _command(era, fresh), capture_output=True, text=True, timeout=_COMPILE_S, check=False
        )
        if done.returncode:
            raise TestbedError(f"compiling the stub CUDA of era {era} failed:\n{done.stderr}")
        try:
            fresh.rename(folder)
        except OSError:
            if not (folder / SONAME).exists():
                raise
