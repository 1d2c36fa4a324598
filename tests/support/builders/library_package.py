"""Packages of the isolation library, as in its image."""

import hashlib
from pathlib import Path

from gpushare.installer.install import SUMS


def package(folder: Path, content: str = "one", launch: str | None = None) -> Path:
    """Write a package of text files in place of the libraries; nothing can load them."""
    folder.mkdir(exist_ok=True)
    (folder / "libgpushare.so").write_text(content)
    if launch is not None:
        (folder / "libgpushare-launch.so").write_text(launch)
    return packaged(folder)


def packaged(folder: Path) -> Path:
    """Write the checksums of the folder's libraries, and return the folder."""
    libraries = sorted(folder.glob("*.so"))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in libraries]
    (folder / SUMS).write_text("".join(sums))
    return folder
