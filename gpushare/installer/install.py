"""The library on a node: placed, repaired and removed.

What belongs here: writing the folder of libraries. What does not: when that is done (``keeping``), and
which versions must stay (``versions``).

Whoever writes has the folder to himself, by a lock. Every step is a rename: agents and container runtimes,
which take no lock, meet whole files only, and a file that programs have mapped is never written into.
"""

import fcntl
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from gpushare.adapters.files import read_file, replace_file
from gpushare.errors import ConfigError
from gpushare.isolation.layout import CURRENT, LIBRARY, PRELOAD_FILE, PRELOAD_TEXT, VERSION_DIGITS
from gpushare.isolation.versions import UnknownUsage, Used, current, found, holds

log = structlog.get_logger()

SUMS: Final = "SHA256SUMS"
_SUM: Final = re.compile(r"([0-9a-f]{64}) [ *]([\w.-]+\.so)")
_AGAIN: Final = "pull or build the image again"
_DRAFT: Final = ".{}.draft"
_OPEN: Final = 0o755
_READABLE: Final = 0o644
_LOCK_S: Final = 10.0
_LOCK_STEP_S: Final = 0.02

Files = Mapping[str, tuple[bytes, int]]
"""Name to content and permissions."""


def install(package: Path, folder: Path) -> str:
    """Place the packaged libraries under their version, make that the current one, and return it.

    ``package`` is a folder with ``SHA256SUMS``. What is in place already is compared, and repaired where it
    differs. Raises ConfigError where a library is not what was packaged, or the folder cannot be written.
    """
    libraries = packaged(package)
    version = _version_of(libraries)
    files = {name: (content, _OPEN) for name, content in libraries.items()}
    files[PRELOAD_FILE] = (PRELOAD_TEXT.encode(), _READABLE)
    with _writing(folder):
        _settle(folder / version, files)
        _point(folder, version)
    return version


def packaged(package: Path) -> Mapping[str, bytes]:
    """The libraries by name. Raises ConfigError where one is not as ``SHA256SUMS`` says."""
    lines = _needed(package / SUMS).decode(errors="replace").splitlines()
    digests = {name: digest for digest, name in map(_line, lines)}
    if LIBRARY not in digests:
        raise ConfigError(f"{package / SUMS} does not list {LIBRARY}: {_AGAIN}")
    libraries = {name: _needed(package / name) for name in digests}
    for name, content in libraries.items():
        digest = hashlib.sha256(content).hexdigest()
        if digest != digests[name]:
            raise ConfigError(
                f"{package / name} is not what was packaged: its SHA-256 is {digest}, and {SUMS} has "
                f"{digests[name]}: {_AGAIN}"
            )
    return libraries


def _line(line: str) -> tuple[str, str]:
    """Digest and name, as ``sha256sum`` writes them."""
    found = _SUM.fullmatch(line)
    if not found:
        raise ConfigError(f"{SUMS}: {line!r} is not a checksum and the name of a library: {_AGAIN}")
    return found[1], found[2]


def _version_of(libraries: Mapping[str, bytes]) -> str:
    """Another content of any library is another version."""
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in libraries.items()]
    return hashlib.sha256("".join(sorted(sums)).encode()).hexdigest()[:VERSION_DIGITS]


def withdraw(folder: Path) -> None:
    """Leave new containers without a library: remove the link. Raises ConfigError where that fails."""
    if folder.is_dir():
        with _writing(folder):
            (folder / CURRENT).unlink(missing_ok=True)


def prune(folder: Path, used: Used | UnknownUsage) -> Mapping[str, str]:
    """Remove the versions that nothing holds, and return those that stay, with the reason.

    An agent that has read the link writes its record a moment later: between a change of the link and this
    there must be some seconds. Raises ConfigError where the folder cannot be written.
    """
    if not folder.is_dir():
        return {}
    with _writing(folder):
        versions = found(folder)
        kept = holds(versions, current(folder), used)
        for version in versions:
            if version not in kept:
                # Under another name first: what is there under a version's name is whole.
                _remove((folder / version).replace(folder / _DRAFT.format(version)))
                log.info("library_removed", version=version)
    return kept


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """The folder, made where it is missing, to ourselves and without what a killed writer left behind."""
    try:
        folder.mkdir(mode=_OPEN, parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(handle, folder)
            _open_up(folder)
            for left in folder.glob(_DRAFT.format("*")):
                _remove(left)
            yield
            # Renames are on the disk once their folder is.
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        where = error.filename2 or error.filename or folder
        raise ConfigError(f"cannot write {where}: {error.strerror}") from error


def _lock(handle: int, folder: Path) -> None:
    deadline = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConfigError(f"{folder} is locked by another installer for {_LOCK_S:g} s") from None
            time.sleep(_LOCK_STEP_S)
        else:
            return


def _settle(target: Path, files: Files) -> None:
    """Have a version's folder as it should be."""
    if not _is_folder(target):
        _place(target, files)
        return
    _open_up(target)
    for name, (content, mode) in files.items():
        path = target / name
        if not _is_sound(path, content, mode):
            if _is_folder(path):
                # A container runtime makes folders where it finds no file to mount.
                _remove(path)
            replace_file(path, content, mode=mode)
            log.warning("library_repaired", path=str(path))


def _place(target: Path, files: Files) -> None:
    draft = target.with_name(_DRAFT.format(target.name))
    draft.mkdir()
    for name, (content, mode) in files.items():
        replace_file(draft / name, content, mode=mode)
    _open_up(draft)
    if target.is_symlink() or target.exists():
        _remove(target)
    draft.replace(target)
    log.info("library_placed", path=str(target))


def _point(folder: Path, version: str) -> None:
    if current(folder) == version:
        return
    draft = folder / _DRAFT.format(CURRENT)
    draft.symlink_to(version)
    draft.replace(folder / CURRENT)
    log.info("library_current", version=version)


def _needed(path: Path) -> bytes:
    content = read_file(path)
    if content is None:
        raise ConfigError(f"{path} is missing: {_AGAIN}")
    return content


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_sound(path: Path, content: bytes, mode: int) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    return stat.S_IMODE(path.stat().st_mode) == mode and read_file(path) == content


def _open_up(folder: Path) -> None:
    """Everybody may look in, whatever the umask said."""
    if stat.S_IMODE(folder.stat().st_mode) != _OPEN:
        folder.chmod(_OPEN)


def _remove(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink()
