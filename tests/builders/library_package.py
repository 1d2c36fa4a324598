"""Packages of the isolation library, as in its image."""

import hashlib
from pathlib import Path

from gpushare.installer.install import SUMS


def packaged(folder: Path) -> Path:
    """Write the checksums of the folder's libraries, and return the folder."""
    libraries = sorted(folder.glob("*.so"))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in libraries]
    (folder / SUMS).write_text("".join(sums))
    return folder
