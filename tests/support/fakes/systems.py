"""Hosts that report another system than they have, with the real package managers of Debian 12 or 13.

``testbed/hosts/stubs`` and ``rpms`` have the packages of the driver. Texts of os-release and names of kernels
are as public pages and repositories quote them, read on 2026-11-28: Rocky Linux 9.4 and 10.1, Amazon Linux
2023.8.20250808 with the kernel of its release notes (kernel6.12-6.12.37-61.105.amzn2023), and Ubuntu.

What belongs here: one value for each system. What does not: building packages, and playbooks.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from testbed.hosts import DEBIAN, HostBase
from testbed.hosts.stubs import Package
from testbed.hosts.stubs.driver import driver_packages, of_distribution, of_nvidia
from testbed.hosts.stubs.nvidia_index import package_version
from testbed.hosts.stubs.ubuntu_driver import of_ubuntu
from tests.support.fakes.rpms import Distribution

DNF: Final = HostBase(
    (*DEBIAN.packages, "createrepo-c", "dnf", "dnf-plugins-core", "python3-dnf", "rpm"),
    (
        'mkdir -p "$1"/etc/yum.repos.d "$1"/etc/dnf/modules.d "$1"/etc/pki/rpm-gpg',
        # A plugin that is disabled on systems of Red Hat.
        'sed -i "s/^enabled *=.*/enabled = 0/" "$1"/etc/dnf/plugins/local.conf',
    ),
)
_NEXT: Final = "trixie"


@dataclass(frozen=True)
class Driver:
    """A version of the driver, and packages that the role installs with it."""

    version: str
    parts: frozenset[str]


@dataclass(frozen=True)
class System:
    """A row of ``plugin_utils/systems.py``, ``name``, as a host plays it.

    ``files`` are those that identify the system. ``module`` is the kernel module of both drivers. One of
    ``debs`` and ``rpms`` is what its repositories have. With ``by_rollback``, the older driver returns by a
    rollback, otherwise by an allowed downgrade. ``left`` are packages that only one of two archives has at
    the version of its driver, and which a change leaves alone.
    """

    name: str
    files: Mapping[str, str]
    old: Driver
    new: Driver
    base: HostBase = DEBIAN
    module: str = "open"
    debs: Callable[[], list[Package]] | None = None
    rpms: Distribution | None = None
    by_rollback: bool = False
    left: frozenset[str] = frozenset()

    @property
    def plays_on(self) -> str:
        """The package manager, and the Debian that it is from, as the documents name them."""
        return f"{'dnf' if self.rpms else 'apt'} of Debian {13 if self.base.suite == _NEXT else 12}"


def release(**fields: str) -> str:
    """Return a text of os-release."""
    return "".join(f'{name}="{value}"\n' for name, value in fields.items())


def _ubuntu(version: str, title: str, old: str, base: HostBase = DEBIAN) -> System:
    repository = f"ubuntu{version.replace('.', '')}"
    new = "615.71.09"
    identity = release(
        PRETTY_NAME=f"Ubuntu {version} LTS",
        NAME="Ubuntu",
        VERSION_ID=version,
        VERSION=f"{version} LTS ({title})",
        VERSION_CODENAME=title.partition(" ")[0].lower(),
        ID="ubuntu",
        ID_LIKE="debian",
    )

    def debs() -> list[Package]:
        drivers = [package for driver in (old, new) for package in of_ubuntu(repository, driver)]
        return [*drivers, *of_distribution(os.uname().release)]

    return System(
        f"ubuntu {version}",
        {"/etc/os-release": identity},
        Driver(old, _ubuntu_parts(old)),
        Driver(new, _ubuntu_parts(new)),
        base,
        debs=debs,
        by_rollback=not base.suite,
    )


def _ubuntu_parts(version: str) -> frozenset[str]:
    branch = version.partition(".")[0]
    if int(branch) >= 590:
        return frozenset({"libnvidia-compute", "nvidia-dkms-open", "nvidia-persistenced"})
    return frozenset(
        {f"nvidia-headless-{branch}-open", f"nvidia-utils-{branch}", f"nvidia-dkms-{branch}-open"}
    )


def _debian(version: int, title: str) -> dict[str, str]:
    """Return the files of a host of Debian, also on a machine with Ubuntu."""
    text = release(
        PRETTY_NAME=f"Debian GNU/Linux {version} ({title})",
        NAME="Debian GNU/Linux",
        VERSION_ID=str(version),
        VERSION=f"{version} ({title})",
        VERSION_CODENAME=title,
        ID="debian",
    )
    return {"/etc/os-release": text}


def _of_debian(repository: str, *versions: str) -> list[Package]:
    drivers = (package_version(repository, version) for version in versions)
    stubs = [package for driver in drivers for package in of_nvidia(driver)]
    return [*stubs, *of_distribution(os.uname().release)]


_OF_NVIDIA: Final = frozenset({"nvidia-driver-cuda", "nvidia-persistenced"})
_DESKTOP: Final = frozenset({"nvidia-driver-cuda", "nvidia-driver", "kmod-nvidia-latest-dkms"})
_COMPUTE: Final = frozenset({"nvidia-driver-cuda", "kmod-nvidia-open-dkms", "nvidia-persistenced"})
_ROCKY: Final = MappingProxyType({"NAME": "Rocky Linux", "ID": "rocky", "ID_LIKE": "rhel centos fedora"})

SYSTEMS: Final = (
    _ubuntu("22.04", "Jammy Jellyfish", "580.65.06"),
    _ubuntu("24.04", "Noble Numbat", "580.65.06"),
    # NVIDIA's repository for it begins with branch 590.
    _ubuntu("26.04", "Resolute Raccoon", "595.71.05", replace(DEBIAN, suite=_NEXT)),
    System(
        "debian 12",
        _debian(12, "bookworm"),
        # From the packages of Debian to those of NVIDIA.
        Driver("535.183.01", frozenset({"libcuda1", "nvidia-smi", "nvidia-kernel-dkms"})),
        Driver("580.178.04", _OF_NVIDIA | {"nvidia-kernel-dkms"}),
        module="proprietary",
        debs=lambda: driver_packages(os.uname().release),
        left=frozenset({"nvidia-alternative", "nvidia-kernel-support", "nvidia-modprobe"}),
    ),
    System(
        "debian 13",
        _debian(13, _NEXT),
        Driver("580.178.04", _OF_NVIDIA | {"nvidia-kernel-open-dkms"}),
        Driver("595.71.05", _OF_NVIDIA | {"nvidia-kernel-open-dkms"}),
        replace(DEBIAN, suite=_NEXT),
        debs=lambda: _of_debian("debian13", "580.178.04", "595.71.05"),
        by_rollback=True,
    ),
    System(
        "rhel 9",
        {
            "/etc/os-release": release(
                **_ROCKY, VERSION="9.4 (Blue Onyx)", VERSION_ID="9.4", PLATFORM_ID="platform:el9"
            ),
            "/etc/redhat-release": "Rocky Linux release 9.4 (Blue Onyx)\n",
        },
        Driver("535.183.01", _DESKTOP | {"nvidia-persistenced"}),
        Driver("580.65.06", _DESKTOP - {"nvidia-driver"} | {"nvidia-persistenced"}),
        DNF,
        "proprietary",
        rpms=Distribution("el9", ("rocky-release", "9.4"), "5.14.0-427.13.1.el9_4.x86_64"),
        by_rollback=True,
    ),
    System(
        "rhel 10",
        {
            "/etc/os-release": release(
                **_ROCKY, VERSION="10.1 (Red Quartz)", VERSION_ID="10.1", PLATFORM_ID="platform:el10"
            ),
            "/etc/redhat-release": "Rocky Linux release 10.1 (Red Quartz)\n",
        },
        Driver("580.65.06", _COMPUTE),
        Driver("595.71.05", _COMPUTE),
        replace(DNF, suite=_NEXT),
        rpms=Distribution("el10", ("rocky-release", "10.1"), "6.12.0-124.8.1.el10_1.x86_64", streams=False),
        by_rollback=True,
    ),
    System(
        "amzn 2023",
        {
            "/etc/os-release": release(
                NAME="Amazon Linux",
                VERSION="2023",
                ID="amzn",
                ID_LIKE="fedora",
                VERSION_ID="2023",
                PLATFORM_ID="platform:al2023",
                PRETTY_NAME="Amazon Linux 2023.8.20250808",
            ),
            "/etc/system-release": "Amazon Linux release 2023 (Amazon Linux)\n",
        },
        Driver("580.65.06", _COMPUTE),
        Driver("595.71.05", _COMPUTE),
        DNF,
        # Its dkms is in the repository of the system itself.
        rpms=Distribution(
            "amzn2023",
            ("system-release", "2023.8.20250808"),
            "6.12.37-61.105.amzn2023.x86_64",
            "kernel6.12-devel",
            epel=False,
        ),
    ),
)
"""One host for each system on which the roles install, without legacy systems."""

REFUSED: Final = {
    "sles 15": release(
        ID="sles", VERSION_ID="15.7", ID_LIKE="suse", PRETTY_NAME="SUSE Linux Enterprise Server 15 SP7"
    ),
    "sles 16": release(
        ID="sles", VERSION_ID="16.0", ID_LIKE="suse", PRETTY_NAME="SUSE Linux Enterprise Server 16.0"
    ),
    "azurelinux 3": release(ID="azurelinux", VERSION_ID="3.0", PRETTY_NAME="Microsoft Azure Linux 3.0"),
    "ubuntu 20.04": release(
        ID="ubuntu", VERSION_ID="20.04", ID_LIKE="debian", PRETTY_NAME="Ubuntu 20.04.6 LTS"
    ),
    "fedora 43": release(ID="fedora", VERSION_ID="43", PRETTY_NAME="Fedora Linux 43"),
}
"""Systems on which the roles install nothing: os-release by name."""
