"""Comparison of resource versions of one resource.

They are integers that grow: guaranteed from Kubernetes 1.35 on, and the revisions of etcd before. Versions
that are no integers cannot be compared, and then both functions return False.
"""


def is_older(version: str, other: str) -> bool:
    """Whether a version is certainly older than another one."""
    return _comparable(version, other) and int(version) < int(other)


def has_reached(version: str, mark: str) -> bool:
    """Whether a version is certainly ``mark`` or newer."""
    return _comparable(version, mark) and int(version) >= int(mark)


def _comparable(*versions: str) -> bool:
    return all(version.isdecimal() for version in versions)
