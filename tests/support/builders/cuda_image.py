"""Images of programs that allocate GPU memory, with the glibc of this machine.

What belongs here: compiling them, and their image. What does not: assertions.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.builders import program_image

SOURCES: Final = Path(__file__).parents[2] / "isolation" / "native"
_NEEDED: Final = re.compile(r"(/\S+) \(0x")
_BESIDE_LIBC: Final = ("libdl.so.2", "libpthread.so.0")
"""Further dependencies of the isolation library."""
_SHARED: Final = ("-shared", "-fPIC", "-DASIDE")
PROGRAMS: Final = {
    "cuda_malloc": (),
    "nvml_memory": (),
    "launch_kernels": (),
    "aside_malloc": (),
    "aside_malloc.so": _SHARED,
}
"""The programs, and the compiler flags of each besides the common ones."""


def programs(folder: Path) -> dict[str, Path]:
    """The programs by name, compiled into ``folder``."""
    for name, flags in PROGRAMS.items():
        source = SOURCES / f"{name.removesuffix('.so')}.c"
        command = ["gcc", "-std=c11", "-O2", *flags, "-o", str(folder / name), str(source), "-ldl"]
        subprocess.run(command, check=True, timeout=60)  # noqa: S603 - our own programs
    return {name: folder / name for name in PROGRAMS}


def save(
    archive: Path,
    image: str,
    found: dict[str, Path],
    busybox: Path,
    command: Sequence[str] = (),
    **more: Path,
) -> None:
    """Write an image of these programs and a shell; ``more`` are further files."""
    contents = {f"bin/{name}": path for name, path in {**found, "busybox": busybox, "sh": busybox}.items()}
    contents |= {str(path): path for path in _userland(found["cuda_malloc"])}
    program_image.save(archive, image, contents | more, command)


def _userland(program: Path) -> list[Path]:
    """The loader and the libraries of a program, by path on this machine.

    ``dlmopen`` looks for the loader beside the C library.
    """
    ldd = [shutil.which("ldd") or "ldd", str(program)]
    text = subprocess.run(ldd, check=True, capture_output=True, text=True, timeout=30).stdout  # noqa: S603
    found = [Path(path) for path in _NEEDED.findall(text)]
    libc = next(path for path in found if path.name.startswith("libc.so"))
    loader = next(path for path in found if path.name.startswith("ld-"))
    return [*found, *(libc.with_name(name) for name in (*_BESIDE_LIBC, loader.name))]
