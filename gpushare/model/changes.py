"""Changes of an object in the API, as a watch reports them, and the order of resource versions.

Versions of one resource are integers that grow: guaranteed from Kubernetes 1.35 on, and the revisions of etcd
before. Versions that are no integers cannot be compared, and then no order is certain.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """An object was added or modified. ``key`` identifies it within its resource."""

    key: str
    value: T


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object was deleted from the API."""

    key: str


def is_older(version: str, other: str) -> bool:
    """Whether a version is certainly older than another one."""
    return _comparable(version, other) and int(version) < int(other)


def has_reached(version: str, mark: str) -> bool:
    """Whether a version is certainly ``mark`` or newer."""
    return _comparable(version, mark) and int(version) >= int(mark)


def _comparable(*versions: str) -> bool:
    return all(version.isdecimal() for version in versions)
