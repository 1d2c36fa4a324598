"""A container image of a few files, for containerd to import: no registry, no build tool."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_PLAIN = 0o644
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


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
    layer = _tar({name.lstrip("/"): (path.read_bytes(), _mode(path)) for name, path in contents.items()})
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Entrypoint": list(entrypoint), "Cmd": list(command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [image], "Layers": ["layer.tar"]}]
    files = {
        "layer.tar": (layer, _PLAIN),
        "config.json": (json.dumps(config).encode(), _PLAIN),
        "manifest.json": (json.dumps(manifest).encode(), _PLAIN),
    }
    archive.write_bytes(_tar(files))


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def _tar(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """``files`` are contents and permissions."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
