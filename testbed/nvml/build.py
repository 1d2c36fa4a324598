"""Compiling the stub: one ``libnvidia-ml.so.1`` per driver era, kept in the testbed's cache.

What belongs here: the compiler and the cache. What does not: which functions an era has (``eras``).
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpushare.errors import ConfigError
from testbed.errors import TestbedError
from testbed.folders import cache_root
from testbed.nvml.eras import ERAS, functions

SONAME: Final = "libnvidia-ml.so.1"
NATIVE: Final = Path(__file__).parent / "native"
FLAGS: Final = ("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{SONAME}")
_COMPILE_S: Final = 120.0


def library(era: int, root: Path | None = None) -> Path:
    """The stub of that era, compiled first where the cache does not have it.

    Raises ConfigError for an unknown era, and TestbedError with the compiler's words.
    """
    if era not in ERAS:
        raise ConfigError(f"era {era} is unknown: choose one of {', '.join(map(str, ERAS))}")
    folder = (root or cache_root()) / "nvml" / f"{era}-{_digest(era)}"
    target = folder / SONAME
    if not target.exists():
        _build(era, folder)
    return target


def compile_command(folder: Path, extra: Sequence[str] = ()) -> list[str]:
    """The command that makes the library in ``folder``, where the list of its functions is already."""
    gcc = shutil.which("gcc")
    if gcc is None:
        raise TestbedError("the stub NVML needs a C compiler: install gcc (apt-get install gcc libc6-dev)")
    exports = f"-Wl,--version-script={folder / 'exports'}"
    sources = [str(path) for path in sorted(NATIVE.glob("*.c"))]
    return [gcc, *FLAGS, *extra, exports, "-o", str(folder / SONAME), *sources, "-lpthread"]


def exports(era: int) -> str:
    """The linker's version script: the functions of the era, and nothing else."""
    names = "".join(f"    {name};\n" for name in sorted(functions(era)))
    return f"{{\nglobal:\n{names}local:\n    *;\n}};\n"


def _digest(era: int) -> str:
    parts = [*FLAGS, exports(era), *(path.read_text() for path in sorted(NATIVE.iterdir()))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _build(era: int, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Another process may build the same: each in its own folder, and the first to finish wins.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as made:
        fresh = Path(made) / "fresh"
        fresh.mkdir()
        (fresh / "exports").write_text(exports(era))
        done = subprocess.run(  # noqa: S603 - the compiler that PATH has
            compile_command(fresh), capture_output=True, text=True, timeout=_COMPILE_S, check=False
        )
        if done.returncode:
            raise TestbedError(f"compiling the stub NVML of era {era} failed:\n{done.stderr}")
        try:
            fresh.rename(folder)
        except OSError:
            if not (folder / SONAME).exists():
                raise
