"""The kubectl plugins as archives for krew, each with its libraries, and the manifests for krew. Pure.

An archive has the libraries of one platform for all supported versions of Python. Compiled modules have the
version in their file names, so they lie side by side.
"""

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpushare import __version__
from gpushare.errors import GpuShareError
from release import man_pages
from release.archives import ArchiveFile

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python with which the plugins run."""


@dataclass(frozen=True)
class Platform:
    """A platform as krew names it, and as uv does."""

    os: str
    arch: str
    uv: str

    @property
    def archive(self) -> str:
        """The file name of its archive."""
        return f"kubectl-gpushare-{__version__}-{self.os}-{self.arch}.tar.gz"


PLATFORMS: Final = (
    Platform("linux", "amd64", "x86_64-unknown-linux-gnu"),
    Platform("linux", "arm64", "aarch64-unknown-linux-gnu"),
    # There is no wheel of cryptography for Intel Macs any more.
    Platform("darwin", "arm64", "aarch64-apple-darwin"),
)


@dataclass(frozen=True)
class KrewPlugin:
    """A plugin: its name in krew, its program, the function that it calls, and what it does."""

    name: str
    program: str
    function: str
    summary: str


PLUGINS: Final = (
    KrewPlugin(
        "gpushare",
        "kubectl-gpushare",
        "kubectl_main",
        "Show shared GPUs and set up their scheduler",
    ),
    KrewPlugin(
        "inspect-gpushare",
        "kubectl-inspect-gpushare",
        "inspect_main",
        "Show the allocated GPU memory of nodes",
    ),
    KrewPlugin(
        "inspect-cgpu",
        "kubectl-inspect-cgpu",
        "inspect_main",
        "Show the allocated GPU memory of nodes",
    ),
)
_LIBRARIES: Final = "lib"
_METADATA: Final = ("METADATA", "licenses")
"""What is kept of the metadata of a package; the rest differs by version of Python and by installer."""
_LAUNCHER: Final = '''\
#!/usr/bin/env python3
"""{summary}, with the libraries of this archive."""

import sys
from pathlib import Path

SUPPORTED = ({supported})
if sys.version_info[:2] not in SUPPORTED:
    known = ", ".join(f"{{major}}.{{minor}}" for major, minor in SUPPORTED)
    sys.exit(f"Error: {program} runs with Python {{known}}; python3 is {{sys.version.split()[0]}}")
sys.path.insert(0, str(Path(__file__).resolve().parent / "{libraries}"))
from gpushare.cli.main import {function}  # noqa: E402

{function}()
'''


def launcher(plugin: KrewPlugin) -> str:
    """Return the program of a plugin, which finds its libraries from its own path, also through a link."""
    return _LAUNCHER.format(
        summary=plugin.summary,
        supported=", ".join(f"({each.replace('.', ', ')})" for each in PYTHONS),
        program=plugin.program,
        libraries=_LIBRARIES,
        function=plugin.function,
    )


def archive(
    libraries: Mapping[str, ArchiveFile], manual: Mapping[str, ArchiveFile], licence: bytes
) -> dict[str, ArchiveFile]:
    """Return the files of the archive of a platform; ``manual`` has pages by file name."""
    programs = {each.program: ArchiveFile(launcher(each).encode(), is_program=True) for each in PLUGINS}
    return {
        "LICENSE": ArchiveFile(licence),
        **programs,
        **{f"{man_pages.FOLDER}/{name}": file for name, file in manual.items()},
        **{f"{_LIBRARIES}/{name}": file for name, file in libraries.items()},
    }


def joined(folders: Iterable[Path]) -> dict[str, ArchiveFile]:
    """Return the files of several installations as one. Raises GpuShareError for a contradiction."""
    found: dict[str, ArchiveFile] = {}
    for folder in folders:
        for name, file in _installed(folder).items():
            if found.setdefault(name, file) != file:
                raise GpuShareError(f"krew: {name} differs between versions of Python")
    return found


def _installed(folder: Path) -> dict[str, ArchiveFile]:
    return {
        str(path.relative_to(folder)): ArchiveFile(
            path.read_bytes(), is_program=bool(path.stat().st_mode & stat.S_IXUSR)
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file() and _is_library(path.relative_to(folder).parts)
    }


def _is_library(parts: tuple[str, ...]) -> bool:
    """Whether it is neither a command nor a lock of the installer, nor such metadata."""
    top, *inside = parts
    return inside[0] in _METADATA if top.endswith(".dist-info") else top not in ("bin", ".lock")


def manifest(plugin: KrewPlugin, url: str, digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of a plugin; ``digests`` has the SHA-256 of each archive."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": plugin.name},
        "spec": {
            "version": f"v{__version__}",
            "shortDescription": plugin.summary,
            "description": f"{plugin.summary}. It runs with Python {', '.join(PYTHONS)}.\n",
            "caveats": f"Run it as: kubectl {plugin.name}\n",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": each.os, "arch": each.arch}},
                    "uri": f"{url}/{each.archive}",
                    "sha256": digests[each.archive],
                    "bin": plugin.program,
                }
                for each in PLATFORMS
            ],
        },
    }
