"""Versions of the library on a node: which are there, which new containers get, which must stay, and why.

What belongs here: looking. What does not: placing and removing (``install``).
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
    """Why it is not known which versions containers have."""

    reason: str


class _Hold(msgspec.Struct):
    library: str


class _Grant(msgspec.Struct):
    hold: _Hold | None = None


class _Record(msgspec.Struct):
    grants: list[_Grant]


def found(folder: Path) -> tuple[str, ...]:
    """The versions that are there. Raises ConfigError where the folder cannot be read."""
    try:
        return tuple(sorted(path.name for path in folder.iterdir() if is_version(path.name)))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"cannot read {folder}: {error.strerror}") from error


def current(folder: Path) -> str | None:
    """What new containers get; None where there is no link, or one that leads to no version."""
    with suppress(OSError):
        version = os.readlink(folder / CURRENT)  # noqa: PTH115 - the link's own text, not a path
        if is_version(version):
            return version
    return None


def in_use(record: Path) -> Used | UnknownUsage:
    """The versions that containers have by the agent's record, ``grants.json``."""
    try:
        content = read_file(record)
        if content is None:
            return UnknownUsage(f"there is no {record}")
        grants = msgspec.json.decode(content, type=_Record).grants
    except ConfigError as error:
        return UnknownUsage(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return UnknownUsage(f"{record} cannot be understood: {error}")
    return frozenset(grant.hold.library for grant in grants if grant.hold)


def holds(versions: Iterable[str], chosen: str | None, used: Used | UnknownUsage) -> Mapping[str, str]:
    """Why a version must stay; those that are not in the answer can go."""
    reasons = {version: _reason(version, chosen, used) for version in versions}
    return {version: reason for version, reason in reasons.items() if reason}


def _reason(version: str, chosen: str | None, used: Used | UnknownUsage) -> str:
    if version == chosen:
        return "new containers get it"
    if isinstance(used, UnknownUsage):
        return f"containers may have it: {used.reason}"
    return "containers have it" if version in used else ""
