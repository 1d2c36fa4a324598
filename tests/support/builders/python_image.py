"""An image of this Python and the programs of ``samples``, with the C library of this machine.

What belongs here: choosing files. What does not: the format of images (``program_image``).
"""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.support.builders import program_image

PYTHON: Final = "/bin/python3"
"""The interpreter in the image, which finds its modules by the variables of ``ENV``."""
_HOME: Final = "/usr"
_SAMPLES: Final = "/srv"
ENV: Final = {"PYTHONHOME": _HOME, "PYTHONPATH": _SAMPLES, "PYTHONUNBUFFERED": "1"}
_UNUSED: Final = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "dist-packages", "test"}
_BESIDE_LIBC: Final = ("libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1")
"""Dependencies of the isolation library and of NVIDIA's driver, which Python may not have."""
_ROOT: Final = Path(__file__).parents[3]


def save(archive: Path, image: str, busybox: Path) -> None:
    """Write an image with Python, a shell, and the samples: their programs are in /bin."""
    python = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    inside = f"{_HOME}/{sys.platlibdir}/{library.name}"
    modules = {f"{inside}/{path.relative_to(library)}": path for path in _used(library)}
    samples = {f"{_SAMPLES}/{path.relative_to(_ROOT)}": path for path in (_ROOT / "samples").glob("*.py")}
    folders = [_ROOT / "samples" / each for each in ("bin", "last")]
    programs = {f"/bin/{path.name}": path for folder in folders for path in folder.iterdir()}
    binaries = [python, *(path for path in modules.values() if path.suffix == ".so")]
    contents = {
        **{str(path): path for path in _libraries(binaries)},
        **modules,
        **samples,
        **programs,
        PYTHON: python,
        "/bin/sh": busybox,
        "/bin/busybox": busybox,
    }
    program_image.save(archive, image, contents)


def _used(library: Path) -> Iterator[Path]:
    """The files of the standard library; a link may lead to a file that is not installed."""
    for path in sorted(library.rglob("*")):
        if path.is_file() and path.suffix != ".a" and not _UNUSED & set(path.relative_to(library).parts):
            yield path


def _libraries(binaries: Iterable[Path]) -> set[Path]:
    """The loader and the libraries of these binaries, by path on this machine."""
    command = [shutil.which("ldd") or "ldd", *map(str, binaries)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)  # noqa: S603
    words = {word for word in done.stdout.split() if word.startswith("/") and not word.endswith(":")}
    found = {Path(word) for word in words}
    libc = next(path for path in found if path.name.startswith("libc.so"))
    return found | {path for name in _BESIDE_LIBC if (path := libc.with_name(name)).exists()}
