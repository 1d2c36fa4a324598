"""The inputs of a build: order, stages of the Containerfile, cache key; and the names of images.

Pure except for reading the sources. What does not belong here: running podman (``release.build``).
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare import __version__
from gpushare.errors import ConfigError

ROOT: Final = Path(__file__).parents[1]
CONTAINERFILE: Final = "Containerfile"
SOURCES: Final = ("LICENSE", "README.md", "pyproject.toml", "uv.lock", "gpushare", "samples")
"""Files that the build may read; .containerignore has the same list."""
REGISTRY: Final = "registry.example.com/gpushare"
"""Registry in the names of images that are not pushed."""
PINNED: Final = "pinned"
"""Stands for the base that the Containerfile names by digest."""
_RECIPE: Final = (
    CONTAINERFILE,
    ".containerignore",
    ".ci/bootstrap",
    *(f"release/{name}.py" for name in ("base", "build", "layout", "podman", "pypi", "recipe", "snapshot")),
)
_STAGE: Final = re.compile(r"^FROM (\S+) AS (\S+)$", re.MULTILINE)
_BASE: Final = re.compile(r"^ARG BASE_IMAGE=(\S+)$", re.MULTILINE)
_SERVICES_FROM: Final = "runtime"
_UV_VERSION: Final = re.compile(r"^UV_VERSION=(\S+)$", re.MULTILINE)
_REGISTRY: Final = re.compile(r"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_PLATFORM: Final = re.compile(r"linux/[a-z0-9]+(/[a-z0-9]+)?")


@dataclass(frozen=True)
class Order:
    """Settings of a build.

    ``base`` is an image with Python; if empty, it is built from apt packages (``release.base``). ``compiler``
    is an image with gcc and make; if both are empty, it is built like the base, otherwise the default is that
    of the Containerfile. ``platforms`` are names such as ``linux/arm64``; if empty, that of this machine; if
    not, each image is a list of manifests. ``source`` is the URL of the repository, for a label.
    ``snapshots`` is the URL of a snapshot service for the apt packages; if empty, they are those of this
    machine's mirror. ``refresh`` builds with the packages, or the ``base``, of today.

    Raises ConfigError for an invalid registry or platform, and for settings that exclude each other.
    """

    registry: str = REGISTRY
    base: str = ""
    compiler: str = ""
    platforms: tuple[str, ...] = ()
    source: str = ""
    snapshots: str = ""
    refresh: bool = False

    def __post_init__(self) -> None:
        if not _REGISTRY.fullmatch(self.registry):
            raise ConfigError(
                f"REGISTRY: {self.registry!r} is not a registry; use lower case, such as {REGISTRY}"
            )
        for platform in self.platforms:
            if not _PLATFORM.fullmatch(platform):
                raise ConfigError(f"PLATFORMS: {platform!r} is invalid; use linux/amd64,linux/arm64")
        if self.platforms and not self.base:
            raise ConfigError(
                "PLATFORMS requires BASE_IMAGE: a base from apt packages has only this machine's platform"
            )
        if self.snapshots and self.base:
            raise ConfigError("SNAPSHOT_URL is for a base from apt packages: unset it, or BASE_IMAGE")
        if self.refresh and self.snapshots:
            raise ConfigError("REFRESH: a snapshot never changes: raise its day in release/snapshot.py")
        if self.refresh and "@" in self.base:
            raise ConfigError("REFRESH: BASE_IMAGE names a digest, which never changes; name another one")


def services(containerfile: str) -> list[str]:
    """Return the stages of the Containerfile that are images of services."""
    return [name for parent, name in _STAGE.findall(containerfile) if parent == _SERVICES_FROM]


def pinned_base(containerfile: str) -> str:
    """Return the base that the Containerfile names."""
    found = _BASE.search(containerfile)
    if not found:
        raise ConfigError(f"{CONTAINERFILE} has no line ARG BASE_IMAGE=…")
    return found[1]


def uv_version(bootstrap: str) -> str:
    """Return the version of uv that ``.ci/bootstrap`` installs."""
    found = _UV_VERSION.search(bootstrap)
    if not found:
        raise ConfigError(".ci/bootstrap has no line UV_VERSION=…")
    return found[1]


def key(order: Order, revision: str, root: Path = ROOT, *, bases: Sequence[str] = ()) -> str:
    """Return the cache key of a build, from sources, recipe, bases, compiler, platforms and revision.

    ``bases`` are the names of the bases from apt packages, which depend on their content.
    """
    digest = hashlib.sha256()
    for word in (order.base, order.compiler, *order.platforms, order.source, revision, *bases):
        digest.update(f"{word}\0".encode())
    for path in inputs(root):
        digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def inputs(root: Path = ROOT) -> Iterator[Path]:
    """Yield the input files of a build in a fixed order."""
    for name in (*_RECIPE, *SOURCES):
        top = root / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        yield from (path for path in files if path.is_file() and "__pycache__" not in path.parts)


def tag(key: str) -> str:
    """Return the tag of a build, so that a registry does not prune its images as untagged."""
    return f"{__version__}-{key}"


def reference(registry: str, service: str, digest: str) -> str:
    """Return the name of an image by digest."""
    return f"{registry}/{service}@{digest}"
