"""Python and its libraries for Linux, from packages of Debian, so that the kubectl plugin needs no other.

The loader and the C library of the same packages start it, so the distribution of the user's machine does not
matter. Nothing of a package is executed, so that this works for other architectures. What does not belong
here: the archive that has these files (``release.krew``).
"""

import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devkit.errors import DevkitError
from release.archives import ArchiveFile
from release.base import codename, sources
from release.snapshot import archives

_SUITE: Final = "trixie"
"""Of Debian, for machines with another distribution."""
_DEFAULT: Final = "https://deb.debian.org/debian"
_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SYSTEM: Final = Path("/etc/os-release")
_APT: Final = Path("/etc/apt")
_PACKAGES: Final = "python3"
_EXTRACT_S: Final = 600.0

_STANDARD: Final = re.compile(r"(?:usr/)?lib/(python3\.\d+)/(.+)")
_PROGRAM: Final = re.compile(r"(?:usr/)?bin/python3\.\d+")
_LIBRARY: Final = re.compile(r"(?:usr/)?lib/[^/]+-linux-gnu/([^/]+\.so[^/]*)")
_LICENCE: Final = re.compile(r"usr/share/doc/([^/]+)/copyright")
_LOADER: Final = re.compile(r"ld-linux-[^/]+\.so\.\d+")


@dataclass(frozen=True)
class Interpreter:
    """``files`` by name in the archive; ``version`` as in ``3.13``; ``loader`` is the name of its file."""

    version: str
    loader: str
    files: dict[str, ArchiveFile]


def fetch(architecture: str, service: str = "") -> Interpreter:
    """Return Debian's Python for an architecture as Debian names it.

    ``service`` is the URL of a snapshot service. Raises DevkitError if the packages cannot be had.
    """
    if shutil.which("mmdebstrap") is None:
        raise DevkitError("mmdebstrap is missing, which gets the Python of the plugins: make packages")
    suite, origin = _origin(service)
    with tempfile.TemporaryDirectory() as folder:
        tar = Path(folder) / "python.tar"
        command = [
            "mmdebstrap",
            "--quiet",
            "--variant=extract",
            f"--architectures={architecture}",
            f"--include={_PACKAGES}",
            suite,
            str(tar),
            *origin,
        ]
        done = subprocess.run(  # noqa: S603 - the program of the distribution
            command, capture_output=True, text=True, check=False, timeout=_EXTRACT_S
        )
        if done.returncode:
            raise DevkitError(f"no Python of Debian {suite} for {architecture}:\n{done.stderr[-2000:]}")
        return chosen(_read(tar))


def chosen(files: Iterable[tuple[str, ArchiveFile]]) -> Interpreter:
    """Return what a program in Python needs of an extracted system. Raises DevkitError without Python."""
    kept: dict[str, ArchiveFile] = {}
    versions, loaders = set(), set()
    for name, file in files:
        if _PROGRAM.fullmatch(name):
            kept["python/bin/python3"] = file
        elif found := _STANDARD.fullmatch(name):
            versions.add(found[1])
            kept[f"python/lib/{found[1]}/{found[2]}"] = file
        elif found := _LIBRARY.fullmatch(name):
            kept[f"python/lib/{found[1]}"] = file
            if _LOADER.fullmatch(found[1]) and not file.link:
                loaders.add(found[1])
        elif found := _LICENCE.fullmatch(name):
            kept[f"share/doc/{found[1]}/copyright"] = file
    if len(versions) != 1 or len(loaders) != 1:
        raise DevkitError(f"one Python and one loader are expected: {sorted(versions)}, {sorted(loaders)}")
    return Interpreter(versions.pop().removeprefix("python"), loaders.pop(), kept)


def _origin(service: str) -> tuple[str, list[str]]:
    """Return a suite of Debian, and the archives that have its packages."""
    system = _SYSTEM.read_text()
    is_debian = "\nID=debian\n" in f"\n{system}\n"
    suite = codename(system) if is_debian else _SUITE
    if service:
        return suite, archives(service, "debian", suite)
    if is_debian:
        return suite, [str(sources(_APT))]
    if not _KEYRING.is_file():
        raise DevkitError(f"{_KEYRING} is missing: apt-get install debian-archive-keyring")
    return suite, [f"deb [signed-by={_KEYRING}] {_DEFAULT} {suite} main"]


def _read(tar: Path) -> Iterable[tuple[str, ArchiveFile]]:
    """Yield regular files, and links that stay in their folder."""
    with tarfile.open(tar) as archive:
        for entry in archive:
            name = entry.name.removeprefix("./")
            if entry.issym() and "/" not in entry.linkname:
                yield name, ArchiveFile(link=entry.linkname)
            elif entry.isreg() or entry.islnk():
                stream = archive.extractfile(entry)
                yield name, ArchiveFile(stream.read() if stream else b"", is_program=bool(entry.mode & 0o100))
