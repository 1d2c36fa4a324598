"""Compiles the stubs of NVIDIA's libraries, once for each driver era, into the cache of the testbed.

What belongs here: the compiler and the cache. What does not: the sources of a stub (``nvml.build``,
``cuda.stub``), and the functions of an era (their ``eras``).
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devkit.errors import DevkitError
from devkit.folders import cache_root

EXPORTS: Final = "exports"
"""Name of the generated version script of the linker."""
_FLAGS: Final = ("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
_COMPILE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Source:
    """A stub of one era. ``name`` is for errors and the cache, ``native`` the folder of its C files.

    ``generated`` maps names to texts of additional files, with the version script; ``flags`` are passed to
    ``compiler``, which may be a cross compiler.
    """

    name: str
    soname: str
    native: Path
    generated: Mapping[str, str]
    flags: tuple[str, ...] = ()
    compiler: str = "gcc"


def compiled(source: Source, root: Path | None = None) -> Path:
    """Return the library; compile it first if it is not in the cache.

    Raises DevkitError with the output of the compiler.
    """
    folder = (root or cache_root()) / "stubs" / f"{source.name}-{_digest(source)}"
    if not (folder / source.soname).exists():
        _build(source, folder)
    return folder / source.soname


def compile_command(source: Source, folder: Path) -> list[str]:
    """Return the command that creates the library in ``folder``, which has the generated files."""
    gcc = shutil.which(source.compiler)
    if gcc is None:
        raise DevkitError(
            f"stubs of NVIDIA's libraries need {source.compiler}: apt-get install gcc libc6-dev"
        )
    files = [str(path) for path in sorted(source.native.glob("*.c"))]
    link = [f"-Wl,-soname,{source.soname}", f"-Wl,--version-script={folder / EXPORTS}"]
    target = str(folder / source.soname)
    return [gcc, *_FLAGS, *source.flags, *link, f"-I{folder}", "-o", target, *files, "-lpthread"]


def _digest(source: Source) -> str:
    generated = (part for item in sorted(source.generated.items()) for part in item)
    files = (path.read_text() for path in sorted(source.native.iterdir()))
    parts = [source.compiler, *_FLAGS, *source.flags, source.soname, *generated, *files]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _build(source: Source, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Another process may build the same stub: each uses its own folder, and the first to finish wins.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as temporary:
        fresh = Path(temporary) / "fresh"
        fresh.mkdir()
        for name, text in source.generated.items():
            (fresh / name).write_text(text)
        done = subprocess.run(  # noqa: S603 - the compiler on PATH
            compile_command(source, fresh), capture_output=True, text=True, timeout=_COMPILE_S, check=False
        )
        if done.returncode:
            raise DevkitError(f"compiling the stub {source.name} failed:\n{done.stderr}")
        try:
            fresh.rename(folder)
        except OSError:
            if not (folder / source.soname).exists():
                raise
