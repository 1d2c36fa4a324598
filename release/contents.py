"""What is in a built image, as its layers say: packages of the distribution and of Python, and our libraries.

What belongs here: reading an OCI image layout and the records of dpkg and pip. What does not: the form of an
SBOM (``release.sbom``). Sources of the formats: the OCI image specification (``layer.md``, with its
whiteouts), deb-control(5), and the packaging guide's *Core metadata*.
"""

import hashlib
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from email.parser import HeaderParser
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

_STATUS: Final = "var/lib/dpkg/status"
_ARCHIVES: Final = "etc/apt/sources.list.d/debian.sources"
_OS_RELEASE: Final = ("usr/lib/os-release", "etc/os-release")
_METADATA: Final = re.compile(r".*\.dist-info/METADATA")
_LIBRARY: Final = re.compile(r"(usr/local|app/\.venv)/lib/gpushare/[^/]+\.so")
_INTERPRETER: Final = re.compile(r"usr/local/bin/python3\.\d+")
_SNAPSHOT: Final = re.compile(r"^# http://snapshot\.debian\.org/archive/debian/(\d{8})T", re.MULTILINE)
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_SOURCE: Final = re.compile(r"(\S+)(?: \((\S+)\))?")


@dataclass(frozen=True)
class DebianPackage:
    """An installed package; advisories of the distribution name its ``source`` and the version of that."""

    name: str
    version: str
    architecture: str
    source: str
    source_version: str


@dataclass(frozen=True)
class PythonPackage:
    """An installed distribution of Python; ``licence`` is empty if its metadata has no expression."""

    name: str
    version: str
    licence: str = ""


@dataclass(frozen=True)
class Contents:
    """The contents of an image for one ``platform``.

    ``system`` are the fields of its os-release, ``libraries`` maps paths of our libraries to their SHA-256.
    ``python`` is the version of an interpreter that no package of the distribution has, or empty.
    ``snapshot`` is the day of the archive from which Docker's image of Debian is, by its list of archives.
    """

    platform: str
    labels: Mapping[str, str]
    system: Mapping[str, str]
    debian: Sequence[DebianPackage]
    distributions: Sequence[PythonPackage]
    libraries: Mapping[str, str]
    python: str
    snapshot: date | None


def read(folder: Path, digest: str) -> Contents:
    """Return the contents of an image in a layout; of several platforms, those of the first."""
    manifest = _json(folder, digest)
    while "manifests" in manifest:
        manifest = _json(folder, manifest["manifests"][0]["digest"])
    config = _json(folder, manifest["config"]["digest"])
    files = merged([_layer(folder, layer["digest"]) for layer in manifest["layers"]])
    system = next((files[name] for name in _OS_RELEASE if name in files), b"")
    return Contents(
        platform=f"{config['os']}/{config['architecture']}",
        labels=config.get("config", {}).get("Labels") or {},
        system=fields(_text(system)),
        debian=sorted(installed(_text(files.get(_STATUS, b""))), key=lambda each: each.name),
        distributions=_distributions(files),
        libraries={
            f"/{name}": hashlib.sha256(content).hexdigest()
            for name, content in sorted(files.items())
            if _LIBRARY.fullmatch(name)
        },
        python=_python(files, config),
        snapshot=_snapshot(_text(files.get(_ARCHIVES, b""))),
    )


def merged(layers: Sequence[Mapping[str, bytes]]) -> dict[str, bytes]:
    """Return the files of all layers as a container sees them."""
    found: dict[str, bytes] = {}
    for layer in layers:
        for name in layer:
            _hide(found, PurePosixPath(name))
        found |= {name: content for name, content in layer.items() if not _is_whiteout(name)}
    return found


def installed(status: str) -> Iterator[DebianPackage]:
    """Yield the installed packages of dpkg's status; it also has removed ones with configuration left."""
    for paragraph in re.split(r"\n\s*\n", status):
        # A line that begins with a space continues a field, such as a description or a list of files.
        found = dict(
            line.split(":", 1) for line in paragraph.splitlines() if line[:1].strip() and ":" in line
        )
        values = {name.lower(): value.strip() for name, value in found.items()}
        if values.get("status", "").split()[-1:] == ["installed"]:
            yield _package(values)


def fields(release: str) -> dict[str, str]:
    """Return the fields of an os-release."""
    pairs = (line.split("=", 1) for line in release.splitlines() if "=" in line and line[0] != "#")
    return {name: value.strip("\"'") for name, value in pairs}


def _package(values: Mapping[str, str]) -> DebianPackage:
    name, version = values["package"], values["version"]
    source = _SOURCE.match(values.get("source", ""))
    return DebianPackage(
        name,
        version,
        values.get("architecture", ""),
        source[1] if source else name,
        (source[2] if source else "") or version,
    )


def _distributions(files: Mapping[str, bytes]) -> list[PythonPackage]:
    found = set()
    for name, content in files.items():
        if _METADATA.fullmatch(name):
            header = HeaderParser().parsestr(_text(content), headersonly=True)
            licence = header["License-Expression"] or ""
            found.add(PythonPackage(str(header["Name"]), str(header["Version"]), str(licence)))
    return sorted(found, key=lambda each: (each.name.lower(), each.version))


def _python(files: Mapping[str, bytes], config: Mapping[str, Any]) -> str:
    """Docker's images of Python compile it, and name its version in the environment."""
    if not any(_INTERPRETER.fullmatch(name) for name in files):
        return ""
    environment: dict[str, str] = dict(
        pair.partition("=")[::2] for pair in config.get("config", {}).get("Env") or []
    )
    return environment.get("PYTHON_VERSION", "")


def _snapshot(archives: str) -> date | None:
    found = _SNAPSHOT.search(archives)
    return date.fromisoformat(found[1]) if found else None


@lru_cache(maxsize=64)
def _layer(folder: Path, digest: str) -> Mapping[str, bytes]:
    """Return the files of a layer that are of interest, and its whiteouts; images share layers."""
    found = {}
    with tarfile.open(_blob(folder, digest), "r:*") as tar:
        for entry in tar:
            name = entry.name.removeprefix("./").removeprefix("/")
            if _is_whiteout(name):
                found[name] = b""
            elif (entry.isreg() or entry.islnk()) and _is_of_interest(name):
                stream = tar.extractfile(entry)
                found[name] = stream.read() if stream else b""
    return found


def _is_of_interest(name: str) -> bool:
    known = name in (_STATUS, _ARCHIVES, *_OS_RELEASE)
    return known or any(each.fullmatch(name) for each in (_METADATA, _LIBRARY, _INTERPRETER))


def _is_whiteout(name: str) -> bool:
    return PurePosixPath(name).name.startswith(_WHITEOUT)


def _hide(found: dict[str, bytes], entry: PurePosixPath) -> None:
    """Remove what a whiteout of a later layer hides: a file, a folder, or the earlier content of a folder."""
    if not _is_whiteout(str(entry)):
        return
    hidden = entry.parent if entry.name == _OPAQUE else entry.with_name(entry.name.removeprefix(_WHITEOUT))
    for name in [name for name in found if PurePosixPath(name).is_relative_to(hidden)]:
        del found[name]


def _json(folder: Path, digest: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_blob(folder, digest).read_bytes())
    return document


def _blob(folder: Path, digest: str) -> Path:
    return folder / "blobs" / Path(*digest.split(":", 1))


def _text(content: bytes) -> str:
    """Names of maintainers in old packages are not always UTF-8."""
    return content.decode(errors="replace")
