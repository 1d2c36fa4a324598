"""The files that hold containers: which library there is, limits, regions, and links to them.

What does not belong here: what is in them (``gpushare.isolation``), and who gets them (``keeper``).
The folder of the state is in memory: nothing here takes long.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gpushare.adapters.files import replace_file
from gpushare.deviceplugin.core.allocations import Enforcement
from gpushare.errors import ConfigError
from gpushare.isolation import region
from gpushare.isolation.layout import (
    LIBRARY,
    LIMIT,
    PRELOAD_FILE,
    REGION,
    DirectoryOwner,
    IsolationDirs,
    is_directory_name,
    link_of,
    owner_of,
)
from gpushare.isolation.versions import current
from gpushare.mps.layout import MpsDirs, ready_lock_of
from gpushare.mps.ready_lock import is_ready

_FOLDER_MODE: Final = 0o755
_LIMIT_MODE: Final = 0o644
_REGION_MODE: Final = 0o666
"""The container's processes write it, whoever they are."""


class EnforcementFiles:
    """``visible`` is whether both folders are there: without their mounts there is nobody to be held."""

    def __init__(self, folders: IsolationDirs) -> None:
        self.folders = folders
        self.visible = folders.libraries.is_dir() and folders.state.is_dir()

    def library(self) -> str | None:
        """The version that new containers get; None where none is installed as a whole."""
        version = current(self.folders.libraries)
        return version if version and self.has(version) else None

    def has(self, version: str, build: str = LIBRARY) -> bool:
        """Whether that version of the library is there as a whole, by the file name of its build."""
        folder = self.folders.libraries / version
        return all((folder / name).is_file() for name in (build, PRELOAD_FILE))

    def make(self, hold: Enforcement) -> None:
        """Have limit and region of that place there; what is there stays. Raises ConfigError.

        A container that started without its files has got folders in their place: container runtimes
        make what they cannot find.
        """
        folder = self.folders.state / hold.place
        with _told(f"cannot write {folder}"):
            folder.mkdir(exist_ok=True)
            folder.chmod(_FOLDER_MODE)
            for path in (folder / LIMIT, folder / REGION):
                if path.is_dir():
                    path.rmdir()
        if not (folder / LIMIT).exists():
            replace_file(folder / LIMIT, hold.limit.encode(), mode=_LIMIT_MODE)
        if not (folder / REGION).exists():
            # Written to its end: of memory that is short a hole would be the first to miss it.
            replace_file(folder / REGION, region.empty(), mode=_REGION_MODE)

    def sync(self, holds: Mapping[DirectoryOwner, Enforcement], *, clear: bool) -> None:
        """Have these places, each with its owner's link; with ``clear``, no others. Raises ConfigError."""
        for owner, hold in holds.items():
            self.make(hold)
            self._link(owner, hold.place)
        if clear:
            self._clear(holds)

    def _link(self, owner: DirectoryOwner, place: str) -> None:
        link = link_of(self.folders.state, owner)
        draft = link.with_name(f".{link.name}")
        with _told(f"cannot write {link}"):
            if link.is_symlink() and str(link.readlink()) == place:
                return
            draft.unlink(missing_ok=True)
            draft.symlink_to(place)
            draft.replace(link)

    def _clear(self, holds: Mapping[DirectoryOwner, Enforcement]) -> None:
        places = {hold.place for hold in holds.values()}
        with _told(f"cannot clear {self.folders.state}"), os.scandir(self.folders.state) as entries:
            for entry in entries:
                if entry.is_symlink():
                    if owner_of(entry.name) not in holds:
                        Path(entry).unlink()
                elif is_directory_name(entry.name) and entry.name not in places:
                    shutil.rmtree(entry)


@contextmanager
def _told(problem: str) -> Iterator[None]:
    """Errors of the system as ours."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{problem}: {error.strerror}") from error


MPS: Final = "mps"
"""What the metric of reduced modes calls it."""


class MpsStatus:
    """``visible`` is whether the agent has the folder where they are: without its mount MPS serves nobody."""

    def __init__(self, folders: MpsDirs) -> None:
        self.folders = folders
        self.visible = folders.state.is_dir()

    def up(self, uuid: str) -> bool:
        """Whether that card's daemon answers, as far as its keeper has seen."""
        return is_ready(ready_lock_of(self.folders.state, uuid))
