"""The kubectl plugins: archives for krew, the same as one file, and the manifests for krew. Pure.

An archive for Linux has a Python of its own. One for macOS has the libraries for all supported versions of
Python: compiled modules have the version in their file names, so they lie side by side. The one file is a
shell script with the archive behind it, which it unpacks once into the cache of the user.
"""

import hashlib
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpushare import __version__
from gpushare.errors import GpuShareError
from release import man_pages
from release.archives import ArchiveFile
from release.interpreter import Interpreter

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python with which the plugins run where they have none of their own."""


@dataclass(frozen=True)
class Platform:
    """A platform as krew names it, and as uv does."""

    os: str
    arch: str
    uv: str

    @property
    def has_python(self) -> bool:
        """Whether its archive has a Python, which there is for Linux."""
        return self.os == "linux"

    @property
    def one_file(self) -> str:
        """The file name of the program that needs nothing else."""
        return f"kubectl-gpushare-{__version__}-{self.os}-{self.arch}"

    @property
    def archive(self) -> str:
        """The file name of its archive."""
        return f"{self.one_file}.tar.gz"


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
_INNER: Final = '''\
"""{summary}: what the shell script starts, with its own name first."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "{libraries}"))
sys.argv[0] = sys.argv.pop(1)
from gpushare.cli.main import {function}  # noqa: E402

{function}()
'''
_INNER_FOLDER: Final = "libexec"
_STARTER: Final = r"""#!/bin/sh
# {summary}, with the Python of this archive.
set -eu
here=$(dirname -- "$(readlink -f -- "$0")")
# OpenSSL looks where Debian has the certificate authorities; other distributions have them elsewhere.
if [ -z "${{SSL_CERT_FILE:-}}" ] && [ ! -e /usr/lib/ssl/certs ]; then
    for each in /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem; do
        [ ! -e "$each" ] || {{ export SSL_CERT_FILE="$each" && break; }}
    done
fi
# By the loader of the archive: the C library of this machine may be older. Without variables, which the
# programs that authenticate for kubectl would inherit.
python="$here/python/bin/python3"
exec "$here/python/lib/{loader}" --library-path "$here/python/lib" --argv0 "$python" "$python" \
    -I "$here/{inner}/{program}" "$0" "$@"
"""
_ONE_FILE: Final = r"""#!/bin/sh
# kubectl gpushare {version} for {os} {arch}, with Python and all libraries, which it unpacks once into
# ${{XDG_CACHE_HOME:-~/.cache}}/gpushare. By the name kubectl-inspect-cgpu, it is that command.
set -eu
fail() {{
    echo "Error: $1" >&2
    exit 1
}}
root="${{XDG_CACHE_HOME:-${{HOME:+$HOME/.cache}}}}"
[ -n "$root" ] || fail "HOME is not set: set XDG_CACHE_HOME to a folder for the libraries of kubectl gpushare"
cache="$root/gpushare"
here="$cache/plugin-{digest}"
if [ ! -d "$here" ]; then
    new=$(umask 077 && mkdir -p "$cache" && mktemp -d "$cache/new.XXXXXX") ||
        fail "$cache cannot be written: set XDG_CACHE_HOME to another folder"
    trap 'rm -rf "$new"' EXIT
    trap 'exit 1' HUP INT TERM
    tail -n +{first} -- "$0" | (umask 077 && tar -xzf - -C "$new") ||
        fail "$0 cannot be unpacked into $cache: free space there, or download the file again"
    # Another start may have been faster; both have the same files.
    mv -T "$new" "$here" 2>/dev/null || [ -d "$here" ] || fail "$new cannot be renamed to $here"
    trap - EXIT HUP INT TERM
    rm -rf "$new"
fi
program=$(basename -- "$0")
[ -f "$here/$program" ] || program=kubectl-gpushare
exec "$here/$program" "$@"
"""


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
    libraries: Mapping[str, ArchiveFile],
    manual: Mapping[str, ArchiveFile],
    licence: bytes,
    interpreter: Interpreter | None = None,
) -> dict[str, ArchiveFile]:
    """Return the files of the archive of a platform; ``manual`` has pages by file name."""
    return {
        "LICENSE": ArchiveFile(licence),
        **_programs(interpreter),
        **{f"{man_pages.FOLDER}/{name}": file for name, file in manual.items()},
        **{f"{_LIBRARIES}/{name}": file for name, file in libraries.items()},
    }


def one_file(platform: Platform, packed: bytes) -> bytes:
    """Return an archive as one program that needs a shell, tar and gzip."""
    digest = hashlib.sha256(packed).hexdigest()[:16]
    first = _ONE_FILE.count("\n") + 1
    script = _ONE_FILE.format(
        version=__version__, os=platform.os, arch=platform.arch, digest=digest, first=first
    )
    return script.encode() + packed


def _programs(interpreter: Interpreter | None) -> dict[str, ArchiveFile]:
    if interpreter is None:
        return {each.program: ArchiveFile(launcher(each).encode(), is_program=True) for each in PLUGINS}
    found = dict(interpreter.files)
    for each in PLUGINS:
        found |= _with_python(each, interpreter.loader)
    return found


def _with_python(plugin: KrewPlugin, loader: str) -> dict[str, ArchiveFile]:
    """Return the shell script that starts a plugin with the Python of the archive, and what it starts."""
    outer = _STARTER.format(
        summary=plugin.summary, program=plugin.program, loader=loader, inner=_INNER_FOLDER
    )
    inner = _INNER.format(summary=plugin.summary, function=plugin.function, libraries=_LIBRARIES)
    return {
        plugin.program: ArchiveFile(outer.encode(), is_program=True),
        f"{_INNER_FOLDER}/{plugin.program}": ArchiveFile(inner.encode()),
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
            "description": f"{plugin.summary}. On macOS it needs Python {', '.join(PYTHONS)}.\n",
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
