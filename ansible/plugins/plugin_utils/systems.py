"""The systems that the roles know: NVIDIA's repository, its signing key and its packages for each. Pure.

What belongs here: facts of the outside world, with source and date, and which system a host counts as. What
does not: names of packages (``roles/nvidia_driver/vars``), and what follows for a host (``preflight``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

CUDA_REPOSITORIES: Final = "https://developer.download.nvidia.com/compute/cuda/repos"


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A public key: its file in the repository, and what identifies it.

    ``sha256`` is of the armored text without lines that begin with Version, as NVIDIA publishes it. A
    ``shipped`` key is a file of the role packages; another one is downloaded once for each host.
    """

    file: str
    fingerprint: str = ""
    sha256: str = ""
    shipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One system; ``name`` is ID and VERSION_ID of os-release(5), and includes its minor versions.

    ``variables`` is the file of the role nvidia_driver with the packages of the driver, "" if the roles
    install none there. ``repository`` is the folder in ``CUDA_REPOSITORIES``. With ``streams``, the driver is
    a module of dnf with a stream for each branch. From branch ``unversioned_from`` on, names of NVIDIA's
    packages lack the branch; 0 if they never have it. A ``legacy`` system needs ansible-core 2.16.
    """

    name: str
    manager: str
    repository: str
    key: SigningKey
    variables: str = ""
    streams: bool = False
    unversioned_from: int = 0
    legacy: bool = False


# The fingerprints of 3bf863cc and D42D0685 are those of SIGNATURES.md in NVIDIA/cuda-repo-management on
# GitHub, commit ee8303df; the digests, and the key of RHEL 10, those of rhel9 and rhel10/Dockerfile in
# NVIDIA/gpu-driver-container, commit 06a208ca of 2026-08-17. Read on 2026-11-28.
_DEB: Final = SigningKey(
    file="3bf863cc.pub", fingerprint="EB693B3035CD5710E231E123A4B469963BF863CC", shipped=True
)
_RPM: Final = SigningKey(
    file="D42D0685.pub",
    fingerprint="610C7B14E068A878070DA4E99CD0A493D42D0685",
    sha256="d0664fbbdb8c32356d45de36c5984617217b2d0bef41b93ccecd326ba3b80c87",
)
_EL_10: Final = SigningKey(
    file="CDF6BA43.pub", sha256="afbea87d3b979b3788ef34223aeeb323ade481128e2c133723ae99b8a51368bb"
)
# From the key, as pardus/pardus-nvidia-installer has it at commit cc51244f; Kitmaker (Debian 13 Trixie).
_DEBIAN_13: Final = SigningKey(
    file="8793F200.pub", fingerprint="02182E60104FCDC26EAE1B8597A5D4CB8793F200", shipped=True
)
# As three public installers quote it, one from the repository on 2026-09-05. The key itself was not read.
_UBUNTU_26: Final = SigningKey(file="60DF8A40.pub", fingerprint="14BAFBC7562AD710CA04E69905FBB6DA60DF8A40")

OTHER_KEYS: Final[Mapping[str, SigningKey]] = {
    "toolkit": SigningKey(
        file="gpgkey", fingerprint="C95B321B61E88C1809C4F759DDCAE044F796ECB0", shipped=True
    ),
    "docker-apt": SigningKey(
        file="docker-apt", fingerprint="9DC858229FC7DD38854AE2D88D81803C0EBFCD88", shipped=True
    ),
    "docker-dnf": SigningKey(
        file="docker-dnf", fingerprint="060A61C51B558A7F742B77AAC52FEB6B621E9F35", shipped=True
    ),
}
"""Of NVIDIA's container toolkit, for all systems, and of download.docker.com, by package manager.

The first two are from Debian's package extrepo-offline-data 1.0.3; public installers quote the same three.
"""


def _ubuntu(version: str, key: SigningKey = _DEB, *, legacy: bool = False) -> System:
    """Return a release of Ubuntu; 590 is from Recent Updates in NVIDIA's Driver Installation Guide."""
    return System(
        name=f"ubuntu {version}",
        manager="apt",
        repository=f"ubuntu{version.replace('.', '')}",
        key=key,
        variables="Ubuntu",
        unversioned_from=590,
        legacy=legacy,
    )


def _debian(version: int, key: SigningKey = _DEB) -> System:
    return System(
        name=f"debian {version}", manager="apt", repository=f"debian{version}", key=key, variables="Debian"
    )


def _el(
    name: str,
    repository: str,
    key: SigningKey = _RPM,
    *,
    streams: bool = True,
    legacy: bool = False,
) -> System:
    return System(
        name=name,
        manager="dnf",
        repository=repository,
        key=key,
        variables="RedHat",
        streams=streams,
        legacy=legacy,
    )


def _not_installed(name: str, manager: str, repository: str) -> System:
    return System(name=name, manager=manager, repository=repository, key=_RPM)


SYSTEMS: Final = (
    _ubuntu("22.04"),
    _ubuntu("24.04"),
    _ubuntu("26.04", _UBUNTU_26),
    _debian(12),
    _debian(13, _DEBIAN_13),
    _el("rhel 9", "rhel9"),
    _el("rhel 10", "rhel10", _EL_10, streams=False),
    _el("amzn 2023", "amzn2023"),
    _not_installed("sles 15", "zypper", "sles15"),
    _not_installed("sles 16", "zypper", "sles16"),
    _not_installed("azurelinux 3", "tdnf", "azl3"),
    # Their dnf needs Python 3.6, which ansible-core supports up to 2.16 (ansible/ansible#84787 on GitHub).
    _el("rhel 8", "rhel8", legacy=True),
    _el("alinux 3", "rhel8", legacy=True),
    System(name="centos 7", manager="yum", repository="rhel7", key=_RPM, variables="CentOS-7", legacy=True),
    _ubuntu("16.04", legacy=True),
    _ubuntu("18.04", legacy=True),
)
_SAME: Final[Mapping[str, str]] = {"ol": "rhel"}
"""IDs of rebuilds that ID_LIKE does not name: Oracle Linux is only like fedora."""


def counts_as(os: Mapping[str, str]) -> System | None:
    """Return the system that a host counts as: its own, or that of which it is a rebuild; None if unknown.

    ``os`` is that of host_report. A rebuild has the version of its parent (AlmaLinux 9.6 is RHEL 9).
    """
    names = [f"{each} {os['version']}." for each in _ids(os)]
    found = (system for name in names for system in SYSTEMS if name.startswith(f"{system.name}."))
    return next(found, None)


def _ids(os: Mapping[str, str]) -> Iterator[str]:
    yield os["id"]
    if os["id"] in _SAME:
        yield _SAME[os["id"]]
    yield from os["like"].split()


def of_host(os: Mapping[str, str]) -> dict[str, Any]:
    """Return the system of a host, and ``home``, the URL of its repository; empty if it is unknown."""
    found = counts_as(os)
    return {**asdict(found), "home": f"{CUDA_REPOSITORIES}/{found.repository}"} if found else {}


def other_key(name: str) -> dict[str, Any]:
    """Return one of ``OTHER_KEYS`` as a mapping."""
    return asdict(OTHER_KEYS[name])


def refusal(os: Mapping[str, str], *, repository: bool) -> str:
    """Return why the roles cannot install packages on a host, and the way out; "" if they can.

    With ``repository``, the inventory names the repository of the driver.
    """
    found = counts_as(os)
    if found and not found.variables:
        return (
            f"the roles install no packages with {found.manager} of {found.name}: install driver and toolkit "
            "otherwise, and set nvidia_driver_state and container_runtime_state to unmanaged"
        )
    if found or repository:
        return ""
    known = ", ".join(system.name for system in SYSTEMS if system.variables)
    return (
        f"{os['name'] or 'a system without os-release'} is not in the table of systems ({known}, and their "
        "rebuilds), so NVIDIA's repository for it is not known: set nvidia_driver_repo_url and "
        "nvidia_driver_repo_key, or nvidia_driver_state: unmanaged if the roles are not to install the driver"
    )
