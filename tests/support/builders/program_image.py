"""A container image of a few files, for containerd to import: no registry, no build tool."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from release.archives import ArchiveFile
from testbed.kubelets.images import saved


def save(
    archive: Path,
    image: str,
    contents: Mapping[str, Path],
    command: Sequence[str] = (),
    entrypoint: Sequence[str] = (),
) -> None:
    """Write the image as ``docker save`` does.

    ``contents`` are files by their paths in the image; ``command`` is the default command, which follows
    ``entrypoint``.
    """
    layer = {name.lstrip("/"): _file(path) for name, path in contents.items()}
    config = {"Env": ["PATH=/bin"], "Entrypoint": list(entrypoint), "Cmd": list(command)}
    archive.write_bytes(saved(layer, {image: config}))


def _file(path: Path) -> ArchiveFile:
    return ArchiveFile(path.read_bytes(), is_program=bool(path.stat().st_mode & 0o100))
