"""What is built, and from what: the stages of the Containerfile, the key of a build, names of images.

Pure but for reading the sources. What does not belong here: running podman (``release.podman``).
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
SOURCES: Final = ("LICENSE", "README.md", "pyproject.toml", "uv.lock", "gpushare")
"""What the build may read; .containerignore says so too."""
REGISTRY: Final = "registry.example.com/gpushare"
"""Stands for a registry where nothing is pushed."""
_RECIPE: Final = (CONTAINERFILE, ".containerignore", ".ci/bootstrap", "release")
_STAGE: Final = re.compile(r"^FROM (\S+) AS (\S+)$", re.MULTILINE)
_SERVICES_FROM: Final = "runtime"
_UV_VERSION: Final = re.compile(r"^UV_VERSION=(\S+)$", re.MULTILINE)
_REGISTRY: Final = re.compile(r"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_PLATFORM: Final = re.compile(r"linux/[a-z0-9]+(/[a-z0-9]+)?")


@dataclass(frozen=True)
class Order:
    """What to build.

    ``base`` is an image with Python, apt's own where empty (``release.base``). ``compiler`` is one
    with gcc and make; where empty, it is apt's own like the base, or for another base the Containerfile's.
    ``platforms`` are like ``linux/arm64``, this machine's where empty; where given, an image is a list of
    manifests. ``source`` is the address of the repository, for a label.
    Raises ConfigError where the name of the registry or a platform cannot be one.
    """

    registry: str = REGISTRY
    base: str = ""
    compiler: str = ""
    platforms: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        if not _REGISTRY.fullmatch(self.registry):
            raise ConfigError(
                f"REGISTRY: {self.registry!r} is no name of a registry; use small letters, like {REGISTRY}"
            )
        for platform in self.platforms:
            if not _PLATFORM.fullmatch(platform):
                raise ConfigError(f"PLATFORMS: {platform!r} is none; use linux/amd64,linux/arm64")
        if self.platforms and not self.base:
            raise ConfigError("PLATFORMS needs BASE_IMAGE, a base that has them; apt's is this machine's")


def services(containerfile: str) -> list[str]:
    """The stages that are images of services."""
    return [name for parent, name in _STAGE.findall(containerfile) if parent == _SERVICES_FROM]


def uv_version(bootstrap: str) -> str:
    """The version of uv that ``.ci/bootstrap`` installs."""
    found = _UV_VERSION.search(bootstrap)
    if not found:
        raise ConfigError(".ci/bootstrap has no line UV_VERSION=…")
    return found[1]


def key(order: Order, revision: str, root: Path = ROOT) -> str:
    """Short name of a build: other sources, another recipe, base, platform or revision, another key."""
    digest = hashlib.sha256()
    for word in (order.base, order.compiler, *order.platforms, order.source, revision):
        digest.update(f"{word}\0".encode())
    for path in inputs(root):
        digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def inputs(root: Path = ROOT, names: Sequence[str] = (*_RECIPE, *SOURCES)) -> Iterator[Path]:
    """Every file that has a part in a build, in a fixed order."""
    for name in names:
        top = root / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        yield from (path for path in files if path.is_file() and "__pycache__" not in path.parts)


def tag(key: str) -> str:
    """The tag of a build in a registry: for people, and so that nothing is pruned there as untagged."""
    return f"{__version__}-{key}"


def reference(registry: str, service: str, digest: str) -> str:
    """The name of an image that no push can change."""
    return f"{registry}/{service}@{digest}"
