"""Finds the requested version among those of a repository, and a repository among those of a host.

What belongs here: the output of apt and dnf, and versions in it. What does not: running them (the role
packages).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Optional epoch, and suffix of the distribution: 5:19.03.5~3-0~debian-buster, 580.65.06-0ubuntu1.
_EPOCH = r"(?:\d+:)?"
_ADDED = r"(?:[-~+].*)?"
# The names of kernels have a version there, and those of other packages one of these words.
_KERNEL_META = re.compile(r"linux-image-(?!\d|unsigned-|extra-|uc-)(?P<flavour>.+?)(?<!-dbg)(?<!-template)")

_OWN_SOURCES = "/etc/apt/sources.list.d/gpushare-"


def is_version(found: str, wanted: str) -> bool:
    """Return whether the package version ``found`` is ``wanted``, which may lack epoch and revision."""
    return found == wanted or re.fullmatch(f"{_EPOCH}{re.escape(wanted)}{_ADDED}", found) is not None


def upstream(version: str) -> str:
    """Return the version without epoch and revision: 580.65.06 of 1:580.65.06-0ubuntu1."""
    return re.split("[-~+]", version.partition(":")[2] or version)[0]


def offered(listing: str) -> dict[str, list[str]]:
    """Return package to versions, as listed: lines of ``name | version | anything``, newest first."""
    found: dict[str, list[str]] = {}
    for line in listing.splitlines():
        name, _, rest = line.partition("|")
        version = rest.partition("|")[0].strip()
        if version and version not in found.setdefault(name.strip(), []):
            found[name.strip()].append(version)
    return found


def pins(names: Sequence[str], wanted: str, listing: str) -> dict[str, str]:
    """Return package to full version for those of ``names`` that are available; "" means the newest."""
    versions = {name: _first(offered(listing).get(name, []), wanted) for name in names}
    return {name: version for name, version in versions.items() if version}


def chosen(
    groups: Sequence[Sequence[str]],
    wanted: str,
    listing: str,
    installed: Mapping[str, Sequence[Mapping[str, Any]]],
) -> list[str]:
    """Return one package of each group: the first that is available or installed at ``wanted``.

    Archives have different names for the same part. If none is there, the first of the group is returned, so
    that a later check names it.
    """
    versions = offered(listing)

    def is_there(name: str) -> bool:
        return bool(_first([*versions.get(name, []), *_versions(installed.get(name, []))], wanted))

    names = (next(filter(is_there, group), group[0]) for group in groups)
    return list(dict.fromkeys(names))


def kernel_flavours(installed: Iterable[str]) -> list[str]:
    """Return the flavours of kernels that updates install, such as amd64 or generic-hwe-24.04.

    They are those of the installed meta packages linux-image-FLAVOUR of Debian and Ubuntu.
    """
    found = (_KERNEL_META.fullmatch(name) for name in sorted(installed))
    return [match["flavour"] for match in found if match]


def of_branch(listing: str, name: str, wanted: str) -> str:
    """Return the newest available version of a package that follows a driver's branch, but not its versions.

    It is ``wanted`` if that is available, else one of its branch, the first number. "" if there is none.
    """
    versions, branch = offered(listing).get(name, []), wanted.partition(".")[0]
    same = (version for version in versions if upstream(version).partition(".")[0] == branch)
    return _first(versions, wanted) or next(same, "")


def apt_source(listing: str, url: str, suites: str) -> str:
    """Return the file and line of a host that already has the repository, "" if none has it.

    ``listing`` has a line of source, URL and suite for each index of ``apt-get indextargets``; a flat
    repository has no suite there. Files of the role do not count.
    """
    wanted = re.compile(re.escape(url.rstrip("/")).replace(re.escape("$(ARCH)"), "[a-z0-9]+") + "/?")
    for line in listing.splitlines():
        source, repository, *suite = line.split()
        same = wanted.fullmatch(repository) and (suite or ["/"])[0] in suites.split()
        if same and not source.startswith(_OWN_SOURCES):
            return source
    return ""


def to_install(
    names: Sequence[str], wanted: str, installed: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[str]:
    """Return those of ``names`` that are not installed, or not at ``wanted``; see Ansible's package_facts."""
    return [name for name in names if not _first(_versions(installed.get(name, [])), wanted)]


def left_behind(
    installed: Mapping[str, Sequence[Mapping[str, Any]]], names: str, versions: str, wanted: str
) -> list[str]:
    """Return the installed packages of a family that are not at ``wanted``.

    The family is defined by the regular expressions ``names``, found in the name, and ``versions``, which
    the upstream version matches in full.
    """
    family = {name: upstream(_versions(installed[name])[0]) for name in installed if re.search(names, name)}
    return sorted(
        name for name, version in family.items() if re.fullmatch(versions, version) and version != wanted
    )


def _versions(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return full versions; RPM facts have version and release apart."""
    return [
        "-".join(str(entry[key]) for key in ("version", "release") if entry.get(key)) for entry in entries
    ]


def _first(versions: Iterable[str], wanted: str) -> str:
    return next((version for version in versions if not wanted or is_version(version, wanted)), "")
