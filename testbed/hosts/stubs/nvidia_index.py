"""The names of NVIDIA's packages, from the dated fixture ``nvidia.toml``.

What does not belong here: relations and files of stubs (``driver``, ``ubuntu_driver``).
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

_FILE: Final = Path(__file__).with_name("nvidia.toml")


def names(repository: str, version: str) -> set[str]:
    """Return the names that a folder of NVIDIA's repositories has for a version of the driver."""
    found = _index(repository, version)
    branch = version.partition(".")[0]
    return {name.format(branch=branch) for name in (*found["names"], *found["assumed"])}


def package_version(repository: str, version: str) -> str:
    """Return the version of the packages with a version of the driver."""
    return f"{version}{_index(repository, version)['version']}"


def _index(repository: str, version: str) -> dict[str, Any]:
    branch = int(version.partition(".")[0])
    (found,) = [
        each
        for each in _indexes()
        if repository in each["repositories"] and each["from"] <= branch < each.get("before", branch + 1)
    ]
    return found


@cache
def _indexes() -> list[dict[str, Any]]:
    indexes: list[dict[str, Any]] = tomllib.loads(_FILE.read_text())["index"]
    return indexes
