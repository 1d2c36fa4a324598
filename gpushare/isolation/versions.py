"""Versions of the library on a node: installed, current, in use, and the reasons to retain them.

Reads only; ``gpushare.installer`` installs and removes versions.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpushare.adapters.files import read_file
from gpushare.errors import ConfigError
from gpushare.isolation.layout import CURRENT, is_version

Used = frozenset[str]


@dataclass(frozen=True, slots=True)
class UnknownUsage:
    """Why the versions in use are unknown."""

    reason: str


class _RecordedEnforcement(msgspec.Struct):
    library: str


class _RecordedAllocation(msgspec.Struct):
    enforcement: _RecordedEnforcement | None = None


class _Record(msgspec.Struct):
    allocations: list[_RecordedAllocation]


def installed_versions(folder: Path) -> tuple[str, ...]:
    """The installed versions in a directory. Raises ConfigError if it cannot be read."""
    try:
        return tuple(sorted(path.name for path in folder.iterdir() if is_version(path.name)))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"cannot read {folder}: {error.strerror}") from error


def current_version(folder: Path) -> str | None:
    """The version that new containers get; None without a link to a version."""
    with suppress(OSError):
        version = os.readlink(folder / CURRENT)  # noqa: PTH115 - the link's own text, not a path
        if is_version(version):
            return version
    return None


def versions_in_use(record: Path) -> Used | UnknownUsage:
    """The versions that containers use according to the agent's record, ``allocations.json``."""
    try:
        content = read_file(record)
        if content is None:
            return UnknownUsage(f"{record} does not exist")
        allocations = msgspec.json.decode(content, type=_Record).allocations
    except ConfigError as error:
        return UnknownUsage(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return UnknownUsage(f"cannot decode {record}: {error}")
    return frozenset(each.enforcement.library for each in allocations if each.enforcement)


def retained_versions(
    versions: Iterable[str], chosen: str | None, used: Used | UnknownUsage
) -> Mapping[str, str]:
    """The versions to retain, with the reason; other versions can be removed."""
    reasons = {version: _reason(version, chosen, used) for version in versions}
    return {version: reason for version, reason in reasons.items() if reason}


def _reason(version: str, chosen: str | None, used: Used | UnknownUsage) -> str:
    if version == chosen:
        return "new containers get it"
    if isinstance(used, UnknownUsage):
        return f"may be in use: {used.reason}"
    return "in use by containers" if version in used else ""
