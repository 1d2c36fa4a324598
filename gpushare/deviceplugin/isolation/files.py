"""Files for enforcement on the node: library versions, container directories, and the ready state of MPS.

Formats are in ``gpushare.isolation`` and ``gpushare.mps``; which containers get files is decided by
``manager``. The state directory is in memory, so nothing here takes long.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gpushare.adapters.files import replace_file
from gpushare.adapters.mounts import noexec_mount_of
from gpushare.deviceplugin.core.allocations import Enforcement
from gpushare.errors import ConfigError
from gpushare.isolation import region
from gpushare.isolation.layout import (
    GUARD,
    LIBRARY,
    LIMIT,
    PRELOAD_FILE,
    REGION,
    DirectoryOwner,
    IsolationDirs,
    build_of,
    is_directory_name,
    link_of,
    owner_of,
)
from gpushare.isolation.versions import current_version
from gpushare.mps.layout import MpsDirs, ready_lock_of
from gpushare.mps.ready_lock import is_ready

MPS: Final = "mps"
"""Value of the label ``right`` of the degraded mode metric."""
_DIRECTORY_MODE: Final = 0o755
_LIMIT_MODE: Final = 0o644
_REGION_MODE: Final = 0o666
"""Processes of the container write the region as any user."""


class EnforcementFiles:
    """Files of limited containers. ``visible``: both directories are mounted, so limits can be enforced.

    ``noexec`` is the mount point of the node that the libraries are on, if no program can load them from it.
    ``proc`` is a ``/proc`` that shows the host's processes; without it that is unknown, and empty.
    """

    def __init__(self, folders: IsolationDirs, proc: Path | None = None) -> None:
        self.folders = folders
        self.visible = folders.libraries.is_dir() and folders.state.is_dir()
        self.noexec = (noexec_mount_of(folders.libraries, proc) if proc else None) or ""

    def library(self) -> str | None:
        """The version that new containers get; None if no complete version is current."""
        version = current_version(self.folders.libraries)
        return version if version and self.has(version) else None

    def has(self, version: str, build: str = LIBRARY) -> bool:
        """Whether a version is installed completely; ``build`` is the file name of the library."""
        directory = self.folders.libraries / version
        return all((directory / name).is_file() for name in (build, PRELOAD_FILE))

    def create(self, enforcement: Enforcement) -> None:
        """Create limit, region and guard in the container directory; existing files stay. Raises ConfigError.

        If a container was started without these files, the container runtime has created directories in
        their place; they are replaced.
        """
        directory = self.folders.state / enforcement.directory
        with _as_config_error(f"cannot write {directory}"):
            directory.mkdir(exist_ok=True)
            directory.chmod(_DIRECTORY_MODE)
            for path in (directory / LIMIT, directory / REGION, directory / GUARD):
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
            _link(directory / GUARD, str(build_of(self.folders, enforcement.mounts)))
        if not (directory / LIMIT).exists():
            replace_file(directory / LIMIT, enforcement.limit.encode(), mode=_LIMIT_MODE)
        if not (directory / REGION).exists():
            # Written without holes: a write into a hole would fail when memory is short.
            replace_file(directory / REGION, region.empty(), mode=_REGION_MODE)

    def sync(self, enforcements: Mapping[DirectoryOwner, Enforcement], *, clear: bool) -> None:
        """Create these directories and their links; with ``clear``, remove others.

        Raises ConfigError at the end: a container may have written where its region should be, and the others
        must get their files.
        """
        errors: list[ConfigError] = []
        for owner, enforcement in enforcements.items():
            link = link_of(self.folders.state, owner)
            try:
                self.create(enforcement)
                with _as_config_error(f"cannot write {link}"):
                    _link(link, enforcement.directory)
            except ConfigError as error:
                errors.append(error)
        if clear:
            self._clear(enforcements)
        if errors:
            raise errors[0]

    def _clear(self, enforcements: Mapping[DirectoryOwner, Enforcement]) -> None:
        names = {each.directory for each in enforcements.values()}
        state = self.folders.state
        with _as_config_error(f"cannot clear {state}"), os.scandir(state) as entries:
            for entry in entries:
                if entry.is_symlink():
                    if owner_of(entry.name) not in enforcements:
                        Path(entry).unlink()
                elif is_directory_name(entry.name) and entry.name not in names:
                    shutil.rmtree(entry)


class MpsStatus:
    """Ready state of the MPS control daemons. ``visible``: their state directory is mounted."""

    def __init__(self, folders: MpsDirs) -> None:
        self.folders = folders
        self.visible = folders.state.is_dir()

    def up(self, uuid: str) -> bool:
        """Whether the control daemon of this GPU is ready."""
        return is_ready(ready_lock_of(self.folders.state, uuid))


def _link(link: Path, target: str) -> None:
    """Create or replace a link. Raises OSError."""
    draft = link.with_name(f".{link.name}")
    if link.is_symlink() and str(link.readlink()) == target:
        return
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)


@contextmanager
def _as_config_error(problem: str) -> Iterator[None]:
    """Raise ConfigError for an OSError."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{problem}: {error.strerror}") from error
