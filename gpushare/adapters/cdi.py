"""The CDI specifications in the folders of a node.

Only files that have changed are read again. What does not belong here: what runtimes make of them
(``gpushare.model.cdi``).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gpushare.errors import InvalidRequest
from gpushare.model.cdi import SUFFIXES, CdiSpec, parse_spec

_MAX_BYTES: Final = 4 << 20


class CdiFiles(NamedTuple):
    """The specifications, and which files are none, with the reason."""

    specs: tuple[CdiSpec, ...] = ()
    unread: tuple[str, ...] = ()


class CdiFolders:
    """Folders of specifications; those in a later one count. Missing folders are empty."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._known: dict[Path, tuple[object, CdiSpec | str]] = {}

    def read(self) -> CdiFiles:
        """The present content. Blocks: specifications of many GPUs take a moment to parse."""
        self._known = {path: self._read(path, priority) for path, priority in self._paths()}
        found = [content for _, content in self._known.values()]
        return CdiFiles(
            tuple(each for each in found if isinstance(each, CdiSpec)),
            tuple(each for each in found if isinstance(each, str)),
        )

    def _paths(self) -> Iterator[tuple[Path, int]]:
        for priority, folder in enumerate(self._folders):
            for suffix in SUFFIXES:
                yield from ((path, priority) for path in sorted(folder.glob(f"*{suffix}")))

    def _read(self, path: Path, priority: int) -> tuple[object, CdiSpec | str]:
        try:
            status = path.stat()
            version = (status.st_ino, status.st_mtime_ns, status.st_size)
            if path in self._known and self._known[path][0] == version:
                return self._known[path]
            if status.st_size > _MAX_BYTES:
                return version, f"{path} has {status.st_size} bytes, more than {_MAX_BYTES}"
            return version, parse_spec(str(path), priority, path.read_text())
        except InvalidRequest as error:
            return None, str(error)
        except (OSError, UnicodeDecodeError) as error:
            return None, f"{path} cannot be read: {error}"
