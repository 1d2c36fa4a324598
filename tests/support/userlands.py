"""C libraries other than this machine's, and programs for them: packages, unpacked once into the cache.

What belongs here: getting them, and compiling for them. What does not: images (``cuda_image``), and the facts
under test.
"""

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.base import codename, sources
from testbed.errors import TestbedError
from testbed.system.folders import cache_root
from testbed.system.locks import exclusive
from testbed.system.process import run_text
from tests.support.cuda_image import SOURCES

_MAKE_S: Final = 300.0
_MIRROR: Final = re.compile(r"\bhttps?://\S+")
_LIBRARIES: Final = "lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Userland:
    """Packages of a release of Debian, this machine's where none is named, with what they need."""

    packages: tuple[str, ...]
    suite: str = ""


BULLSEYE: Final = Userland(("libc6", "libc6-dev"), "bullseye")
"""glibc 2.31, and what compiles for it: 67 MB."""
STRANGERS: Final = Userland(("musl", "libc6-i386"))
"""musl, and glibc for programs of 32 bits: 26 MB."""


async def ensure(userland: Userland) -> Path:
    """Return the root folder, made where it is not in the cache yet (about 5 seconds).

    Raises TestbedError where the packages cannot be had.
    """
    if shutil.which("mmdebstrap") is None:
        raise TestbedError("other C libraries need mmdebstrap (apt-get install mmdebstrap)")
    suite, source = _where(userland)
    recipe = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(userland.packages)}", suite]
    name = f"{suite}-{hashlib.sha256(' '.join(recipe).encode()).hexdigest()[:12]}"
    folder = cache_root() / "userlands" / name
    async with exclusive(folder.with_suffix(".lock"), _MAKE_S, "another maker of userlands"):
        if not folder.is_dir():
            fresh = folder.with_suffix(".fresh")
            shutil.rmtree(fresh, ignore_errors=True)
            await run_text([*recipe, str(fresh), source], _MAKE_S)
            fresh.rename(folder)
    return folder


def _where(userland: Userland) -> tuple[str, str]:
    """The release, and the list of its archives or where it is."""
    listed = sources(Path("/etc/apt"))
    if userland.suite:
        return userland.suite, _mirror(listed)
    return codename(Path("/etc/os-release").read_text()), str(listed)


def _mirror(listed: Path) -> str:
    """Where the machine gets its own packages: other releases are there too, as long as they are kept."""
    found = [
        match[0] for line in listed.read_text().splitlines() if (match := _MIRROR.search(line.split("#")[0]))
    ]
    if not found:
        raise TestbedError(f"{listed} names no mirror")
    return found[0]


def glibc(root: Path, source: str, target: Path) -> dict[str, Path]:
    """Compile a program for a userland of glibc; return the files of an image with it."""
    libraries = {name: root / _LIBRARIES / name for name in ("libc.so.6", "libdl.so.2", "libpthread.so.0")}
    start = root / "usr" / _LIBRARIES
    # By name: the linker's script for -lc has absolute paths, which are this machine's.
    begin, end = (start / "crt1.o", start / "crti.o"), (start / "libc_nonshared.a", start / "crtn.o")
    flags = [f"--sysroot={root}", "-std=c11", "-O2", "-no-pie", "-nostdlib"]
    _gcc([*flags, "-o", str(target), *map(str, (*begin, SOURCES / f"{source}.c", *libraries.values(), *end))])
    return {
        f"bin/{target.name}": target,
        "lib64/ld-linux-x86-64.so.2": root / _LIBRARIES / "ld-linux-x86-64.so.2",
        **{f"{_LIBRARIES}/{name}": path for name, path in libraries.items()},
    }


def musl(root: Path, folder: Path) -> dict[str, Path]:
    """The program that says whether it is held, for musl; the files of an image with it."""
    loader, target = "lib/ld-musl-x86_64.so.1", folder / "held_musl"
    library = root / "lib/x86_64-linux-musl/libc.so"
    # Found by the linker: given by its path, it would be asked for by that.
    _bare(target, loader, f"-L{library.parent}", "-lc")
    return {f"bin/{target.name}": target, loader: library}


def i386(root: Path, folder: Path) -> dict[str, Path]:
    """The same for glibc of 32 bits."""
    loader, target = "lib/ld-linux.so.2", folder / "held_i386"
    library = root / "lib32/libc.so.6"
    _bare(target, loader, str(library), "-m32")
    return {f"bin/{target.name}": target, loader: root / "lib32/ld-linux.so.2", "lib32/libc.so.6": library}


def _bare(target: Path, loader: str, *linked: str) -> None:
    """Without start files and headers, which are not there."""
    flags = ["-O2", "-fno-stack-protector", "-nostdlib", "-no-pie", "-Wl,--allow-shlib-undefined"]
    _gcc([*flags, f"-Wl,-dynamic-linker,/{loader}", "-o", str(target), str(SOURCES / "held.c"), *linked])


def _gcc(arguments: list[str]) -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        ["gcc", *arguments],  # noqa: S607 - the compiler that PATH has
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise TestbedError(f"compiling for another C library failed:\n{done.stderr}")
