"""Images as files: the OCI image layout that podman writes, and its archive for containerd.

What belongs here: reading digests and sizes, naming, packing. What does not: building.
Source of the formats: the OCI image specification, ``image-layout.md`` and ``manifest.md``; the annotation
with the name of an imported image is specific to containerd.
"""

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpushare.errors import ConfigError

INDEX: Final = "index.json"
_REF_NAME: Final = "org.opencontainers.image.ref.name"
_IMAGE_NAME: Final = "io.containerd.image.name"
_BLOBS: Final = "blobs/sha256"


def digests(folder: Path) -> dict[str, str]:
    """Return name → digest of the images in the layout."""
    return {entry["annotations"][_REF_NAME]: entry["digest"] for entry in _entries(folder)}


def holding(built: Path, digest: str) -> Path:
    """Return the layout with an image, of all in the folder ``built``. Raises ConfigError if none has it."""
    for folder in sorted(built.glob("*")):
        if _blob(folder, digest).exists():
            return folder
    raise ConfigError(f"{digest} is not among the last builds on this machine: run make images")


def size(folder: Path, digest: str) -> int:
    """Return the bytes of a pull of all platforms of an image: manifest, configuration, layers."""
    file = _blob(folder, digest)
    manifest = json.loads(file.read_bytes())
    if "manifests" in manifest:
        return file.stat().st_size + sum(size(folder, each["digest"]) for each in manifest["manifests"])
    parts = [manifest["config"], *manifest["layers"]]
    return file.stat().st_size + sum(int(part["size"]) for part in parts)


def pack(folder: Path, references: Mapping[str, str], archive: Path) -> None:
    """Write the layout as a tar with full names of images (``references``: name → full name)."""
    with tarfile.open(archive, "w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != INDEX:
                tar.add(path, str(path.relative_to(folder)))
        text = named(json.loads((folder / INDEX).read_bytes()), references).encode()
        entry = tarfile.TarInfo(INDEX)
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))


def named(index: Mapping[str, Any], references: Mapping[str, str]) -> str:
    """Return the index of the layout with full names of the images in ``references``, without others."""
    entries = [
        {**entry, "annotations": {_IMAGE_NAME: references[entry["annotations"][_REF_NAME]]}}
        for entry in index["manifests"]
        if entry["annotations"][_REF_NAME] in references
    ]
    return json.dumps({**index, "manifests": entries})


def _entries(folder: Path) -> list[dict[str, Any]]:
    index: dict[str, list[dict[str, Any]]] = json.loads((folder / INDEX).read_bytes())
    return index["manifests"]


def _blob(folder: Path, digest: str) -> Path:
    return folder / _BLOBS / digest.removeprefix("sha256:")
