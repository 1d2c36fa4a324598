"""Base images from the Debian or Ubuntu packages of this machine, for builds without a registry.

One replaces ``python:…-slim``: glibc, a shell, Python with ``venv``, and no apt. The other replaces
``gcc``. The same packages give the same bytes.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devkit.errors import DevkitError
from devkit.process import run_text
from release.podman import Store
from release.recipe import CONTAINERFILE


@dataclass(frozen=True)
class BaseKind:
    """The name of a base, and its packages in addition to the essential ones."""

    name: str
    packages: str


# Wheels in C++ require libstdc++; without usr-is-merged, perl and all its modules are installed.
RUNTIME: Final = BaseKind("base", "libstdc++6,python3,python3-venv,usr-is-merged")
COMPILER: Final = BaseKind("compiler", "gcc,libc6-dev,make,usr-is-merged")

_EXCLUDED: Final = ("doc", "info", "lintian", "locale", "man")
_CLEAN: Final = 'rm -rf "$1"/var/cache/* "$1"/var/lib/apt/lists/* "$1"/var/log/*'
_NO_BYTECODE: Final = 'find "$1/usr" -name __pycache__ -prune -exec rm -rf {} +'
"""The Containerfile compiles bytecode that is checked by content, not by time."""
_MMDEBSTRAP: Final = (
    "mmdebstrap",
    "--quiet",
    "--variant=essential",
    # Packages expect that /bin is a link from the start.
    "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
    *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _EXCLUDED),
    f"--customize-hook={_CLEAN}",
    f"--customize-hook={_NO_BYTECODE}",
)
_TAR: Final = "base.tar"
_IMAGE: Final = f"""\
FROM scratch
ADD {_TAR} /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
_RELEASE: Final = Path("/etc/os-release")
_APT: Final = Path("/etc/apt")
_MAKE_S: Final = 1200.0
_SHORT_S: Final = 60.0


def sources(apt: Path) -> Path:
    """Return the file with the archives of the distribution, without those added to the machine."""
    known = [apt / f"sources.list.d/{name}.sources" for name in ("debian", "ubuntu")] + [apt / "sources.list"]
    for path in known:
        if path.is_file():
            return path
    raise DevkitError(f"{apt} has no list of Debian or Ubuntu archives: set BASE_IMAGE")


def codename(release: str) -> str:
    """Return the codename of the distribution from the text of /etc/os-release."""
    for line in release.splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    raise DevkitError("/etc/os-release has no VERSION_CODENAME: set BASE_IMAGE")


def command(suite: str, tar: Path, listed: Path, kind: BaseKind = RUNTIME) -> list[str]:
    """Return the command that creates the root folder as a tar."""
    return [*_MMDEBSTRAP, f"--include={kind.packages}", suite, str(tar), str(listed)]


def name(suite: str, kind: BaseKind = RUNTIME) -> str:
    """Return the name of a base in a store, which depends on the recipe."""
    recipe = hashlib.sha256("\0".join((*_MMDEBSTRAP, kind.packages, _IMAGE)).encode())
    return f"localhost/gpushare-{kind.name}:{suite}-{recipe.hexdigest()[:12]}"


async def ensure(store: Store, cache: Path, kind: BaseKind = RUNTIME) -> str:
    """Build a base unless the store has it, and return its name; its tar is kept in ``cache``."""
    suite = codename(_RELEASE.read_text())
    image = name(suite, kind)
    if (await run_text(store.command("images", "--quiet", image), _SHORT_S)).strip():
        return image
    folder = cache / image.rpartition(":")[2]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / _TAR).exists():
        await _make(suite, folder, kind)
    (folder / CONTAINERFILE).write_text(_IMAGE)
    await run_text(store.build(folder, folder / CONTAINERFILE, image, {}), _MAKE_S)
    return image


async def _make(suite: str, folder: Path, kind: BaseKind) -> None:
    fresh = folder / f"fresh-{_TAR}"
    await run_text(["env", "SOURCE_DATE_EPOCH=0", *command(suite, fresh, sources(_APT), kind)], _MAKE_S)
    fresh.rename(folder / _TAR)
