"""Finds the driver among the installed packages of a host, in any layout of any archive. Pure.

What belongs here: names of packages that every driver has. What does not: those that the role installs
(``roles/nvidia_driver/vars``), and what follows (``driver_plan``).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ansible_collections.gpushare.nodes.plugins.plugin_utils.package_versions import upstream

Packages = Mapping[str, Sequence[Mapping[str, Any]]]

_SUFFIX: Final = r"(-[0-9]+)?(-server)?"
# Of Debian and NVIDIA's Debian; of Ubuntu and NVIDIA's Ubuntu; of NVIDIA's RPMs; of SUSE.
_CUDA: Final = re.compile(
    rf"libcuda1|libnvidia-compute{_SUFFIX}|nvidia-driver-cuda(-libs)?|nvidia-compute-G\d+"
)
_MODULE: Final = re.compile(
    rf"nvidia-(kernel|kernel-open|open-kernel)-dkms|nvidia-dkms{_SUFFIX}(-open)?|kmod-nvidia-.*"
    r"|nvidia-(open-)?driver-G\d+.*"
)
_META: Final = re.compile(rf"nvidia-(driver|headless)(-no-dkms)?(-latest-dkms|-branch)?{_SUFFIX}(-open)?")
_DRIVER: Final = re.compile(r"\d{3}\.\d+(\.\d+)?")


def installed(packages: Packages) -> str:
    """Return the version of the driver, "" if the host has none; ``packages`` is from package_facts.

    The library of CUDA decides, then the kernel module. Names of meta packages differ most, and an
    installation for computing has none.
    """
    for pattern in (_CUDA, _MODULE, _META):
        if found := sorted(_versions(packages, pattern), key=_key):
            return found[-1]
    return ""


def _versions(packages: Packages, pattern: re.Pattern[str]) -> Iterator[str]:
    named = (entries for name, entries in packages.items() if pattern.fullmatch(name))
    versions = (upstream(str(entry["version"])) for entries in named for entry in entries)
    return (version for version in versions if _DRIVER.fullmatch(version))


def _key(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]
