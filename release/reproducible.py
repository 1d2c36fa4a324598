"""Removes from the outputs of other programs what differs between two builds of the same sources. Pure."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from release.archives import ArchiveFile, read_tar_gz, tar_gz

_FILES: Final = "FILES.json"
_MANIFEST: Final = "MANIFEST.json"


def collection(tarball: bytes, repository: str) -> bytes:
    """Return the tarball of a collection with its files in order, and with the URL of its repository.

    ansible-galaxy writes the files in the order of the disk; Galaxy requires a repository.
    """
    files = read_tar_gz(tarball)
    listed = json.loads(files[_FILES].content)
    listed["files"].sort(key=lambda each: str(each["name"]))
    text = _json(listed)
    manifest = json.loads(files[_MANIFEST].content)
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(text).hexdigest()
    manifest["collection_info"]["repository"] = repository
    return tar_gz({**files, _FILES: ArchiveFile(text), _MANIFEST: ArchiveFile(_json(manifest))})


def bill_of_materials(text: str) -> str:
    """Return a CycloneDX document without its time and its random serial number."""
    document: dict[str, Any] = json.loads(text)
    document.pop("serialNumber", None)
    document.get("metadata", {}).pop("timestamp", None)
    return json.dumps(document, indent=2) + "\n"


def checksums(contents: Mapping[str, bytes]) -> str:
    """Return the file for ``sha256sum --check``."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(contents.items())
    )


def _json(value: object) -> bytes:
    return json.dumps(value, indent=True).encode()
