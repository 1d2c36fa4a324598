"""Installs, repairs and removes versions of the library on a node.

``daemon`` decides when, ``gpushare.isolation.versions`` which versions to retain.

A writer locks the directory. Every step is a rename: node agents and container runtimes, which take no lock,
see complete files only, and a file that programs have mapped is never modified.
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
from gpushare.isolation.versions import (
    UnknownUsage,
    Used,
    current_version,
    installed_versions,
    retained_versions,
)

log = structlog.get_logger()

SUMS: Final = "SHA256SUMS"
_SUM: Final = re.compile(r"([0-9a-f]{64}) [ *]([\w.-]+\.so)")
_HINT: Final = "pull or build the image again"
_DRAFT: Final = ".{}.draft"
_DIRECTORY_MODE: Final = 0o755
_LIBRARY_MODE: Final = 0o755
_PRELOAD_MODE: Final = 0o644
_LOCK_S: Final = 10.0
_LOCK_STEP_S: Final = 0.02

Files = Mapping[str, tuple[bytes, int]]
"""Name to content and permissions."""


def install(package: Path, folder: Path, *, lock_s: float = _LOCK_S) -> str:
    """Install the packaged libraries as a version, make it current, and return it.

    ``package`` is a directory with ``SHA256SUMS``. Installed files are compared, and replaced if they differ.
    Raises ConfigError if a library does not match its checksum, ``folder`` cannot be written, or another
    installer has locked it for ``lock_s`` seconds.
    """
    libraries = packaged(package)
    version = _version_of(libraries)
    files = {name: (content, _LIBRARY_MODE) for name, content in libraries.items()}
    files[PRELOAD_FILE] = (PRELOAD_TEXT.encode(), _PRELOAD_MODE)
    with _locked(folder, lock_s):
        _create_or_repair(folder / version, files)
        _make_current(folder, version)
    return version


def packaged(package: Path) -> Mapping[str, bytes]:
    """The libraries by name. Raises ConfigError if one does not match ``SHA256SUMS``."""
    lines = _read_required(package / SUMS).decode(errors="replace").splitlines()
    digests = {name: digest for digest, name in map(_line, lines)}
    if LIBRARY not in digests:
        raise ConfigError(f"{package / SUMS} does not list {LIBRARY}: {_HINT}")
    libraries = {name: _read_required(package / name) for name in digests}
    for name, content in libraries.items():
        digest = hashlib.sha256(content).hexdigest()
        if digest != digests[name]:
            raise ConfigError(
                f"{package / name} does not match {SUMS}: its SHA-256 is {digest}, expected "
                f"{digests[name]}: {_HINT}"
            )
    return libraries


def _line(line: str) -> tuple[str, str]:
    """Digest and name in a line of ``sha256sum``."""
    match = _SUM.fullmatch(line)
    if not match:
        raise ConfigError(f"{SUMS}: {line!r} is not a checksum and the name of a library: {_HINT}")
    return match[1], match[2]


def _version_of(libraries: Mapping[str, bytes]) -> str:
    """The version of these libraries, which depends on the content of each."""
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in libraries.items()]
    return hashlib.sha256("".join(sorted(sums)).encode()).hexdigest()[:VERSION_DIGITS]


def withdraw(folder: Path) -> None:
    """Remove the link to the current version, so new containers get no library. Raises ConfigError."""
    if folder.is_file():
        raise ConfigError(f"{folder} is not a folder")
    if folder.is_dir():
        with _locked(folder):
            (folder / CURRENT).unlink(missing_ok=True)


def prune(folder: Path, used: Used | UnknownUsage) -> Mapping[str, str]:
    """Remove unused versions, and return the retained ones with the reason. Raises ConfigError.

    An agent records a version shortly after it has read the link, so callers must wait some seconds between
    a change of the link and this call.
    """
    if not folder.is_dir():
        return {}
    with _locked(folder):
        versions = installed_versions(folder)
        retained = retained_versions(versions, current_version(folder), used)
        for version in versions:
            if version not in retained:
                # Renamed first: a directory with the name of a version is always complete.
                _remove((folder / version).replace(folder / _DRAFT.format(version)))
                log.info("library_removed", version=version)
    return retained


@contextmanager
def _locked(folder: Path, lock_s: float = _LOCK_S) -> Iterator[None]:
    """Create the directory if it is missing, lock it, and remove drafts of writers that were killed."""
    try:
        folder.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(handle, folder, lock_s)
            _set_mode(folder)
            for draft in folder.glob(_DRAFT.format("*")):
                _remove(draft)
            yield
            # Makes the renames durable.
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        where = error.filename2 or error.filename or folder
        raise ConfigError(f"cannot write {where}: {error.strerror}") from error


def _lock(handle: int, folder: Path, lock_s: float) -> None:
    deadline = time.monotonic() + lock_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConfigError(f"another installer has locked {folder} for {lock_s:g} s") from None
            time.sleep(_LOCK_STEP_S)
        else:
            return


def _create_or_repair(target: Path, files: Files) -> None:
    """Create the directory of a version, or replace its files that differ."""
    if not _is_directory(target):
        _create(target, files)
        return
    _set_mode(target)
    for name, (content, mode) in files.items():
        path = target / name
        if not _is_intact(path, content, mode):
            if _is_directory(path):
                # Container runtimes create directories for missing mount sources.
                _remove(path)
            replace_file(path, content, mode=mode)
            log.warning("library_repaired", path=str(path))


def _create(target: Path, files: Files) -> None:
    draft = target.with_name(_DRAFT.format(target.name))
    draft.mkdir()
    for name, (content, mode) in files.items():
        replace_file(draft / name, content, mode=mode)
    _set_mode(draft)
    if target.is_symlink() or target.exists():
        _remove(target)
    draft.replace(target)
    log.info("library_installed", path=str(target))


def _make_current(folder: Path, version: str) -> None:
    if current_version(folder) == version:
        return
    draft = folder / _DRAFT.format(CURRENT)
    draft.symlink_to(version)
    draft.replace(folder / CURRENT)
    log.info("library_current", version=version)


def _read_required(path: Path) -> bytes:
    content = read_file(path)
    if content is None:
        raise ConfigError(f"{path} is missing: {_HINT}")
    return content


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_intact(path: Path, content: bytes, mode: int) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    return stat.S_IMODE(path.stat().st_mode) == mode and read_file(path) == content


def _set_mode(folder: Path) -> None:
    """Make a directory readable for all users, whatever the umask is."""
    if stat.S_IMODE(folder.stat().st_mode) != _DIRECTORY_MODE:
        folder.chmod(_DIRECTORY_MODE)


def _remove(path: Path) -> None:
    if _is_directory(path):
        shutil.rmtree(path)
    else:
        path.unlink()
