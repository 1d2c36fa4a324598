"""Archives whose bytes depend on their files only, not on time, user, order or compression settings.

Pure. What does not belong here: which files a release has (``release.bundle``).
"""

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_FILE: Final = 0o644
_PROGRAM: Final = 0o755
_LEVEL: Final = 6


@dataclass(frozen=True)
class ArchiveFile:
    """A regular file, a folder, or a link to another name in the archive."""

    content: bytes = b""
    is_program: bool = False
    is_folder: bool = False
    link: str = ""


def tar(files: Mapping[str, ArchiveFile]) -> bytes:
    """Return a tar of the files by name, sorted, of root, and of 1970."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, file in sorted(files.items()):
            archive.addfile(_entry(name, file), io.BytesIO(file.content))
    return buffer.getvalue()


def tar_gz(files: Mapping[str, ArchiveFile]) -> bytes:
    """Return a compressed tar of the files."""
    return gzip.compress(tar(files), compresslevel=_LEVEL, mtime=0)


def read_tar_gz(content: bytes) -> dict[str, ArchiveFile]:
    """Return the files, folders and links of a compressed tar."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        return {each.name: _file(archive, each) for each in archive}


def _entry(name: str, file: ArchiveFile) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = len(file.content)
    entry.mode = _PROGRAM if file.is_program or file.is_folder else _FILE
    if file.is_folder:
        entry.type = tarfile.DIRTYPE
    if file.link:
        entry.type, entry.linkname = tarfile.SYMTYPE, file.link
    return entry


def _file(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> ArchiveFile:
    if entry.isdir():
        return ArchiveFile(is_folder=True)
    if entry.issym():
        return ArchiveFile(link=entry.linkname)
    stream = archive.extractfile(entry)
    return ArchiveFile(stream.read() if stream else b"", is_program=bool(entry.mode & 0o100))
