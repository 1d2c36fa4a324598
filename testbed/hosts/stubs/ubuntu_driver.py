"""The driver in NVIDIA's repository for Ubuntu: with the branch in names up to 580, without from 590 on.

The relations up to 580 are those of ``debian/templates/control.in`` in NVIDIA/ubuntu-packaging-nvidia-driver
(39283fcf). From 590 on they are assumed, because no index could be read; the worst case is that the new
packages do not declare that they replace the old ones. Names and versions are from ``nvidia.toml``; graphics
is left out.
"""

from collections.abc import Iterator
from dataclasses import replace

from testbed.hosts.stubs.driver import DAEMON, SMI
from testbed.hosts.stubs.nvidia_index import package_version
from testbed.hosts.stubs.package import Package, with_service

_UNVERSIONED = 590


def of_ubuntu(repository: str, driver: str) -> list[Package]:
    """Return one version of the driver in a folder of NVIDIA's repositories, such as ubuntu2404."""
    version, branch = package_version(repository, driver), driver.partition(".")[0]
    return list(_plain(version) if int(branch) >= _UNVERSIONED else _branched(version, branch))


def _branched(version: str, branch: str) -> Iterator[Package]:
    same = f"(= {version})"
    yield _alone(f"libnvidia-compute-{branch}", version, "libnvidia-compute")
    yield replace(_alone(f"nvidia-utils-{branch}", version, "nvidia-utils"), files=_smi(version))
    yield _alone(f"nvidia-kernel-common-{branch}", version, "nvidia-kernel-common")
    # From NVIDIA, the daemon is a package of its own.
    yield _persistenced(version)
    needed = f"libnvidia-compute-{branch} {same}, nvidia-persistenced"
    yield Package(f"nvidia-compute-utils-{branch}", version, needed)
    for kind in ("", "-open"):
        source = f"nvidia-kernel-source-{branch}{kind}"
        yield _alone(source, version, "nvidia-kernel-source")
        needed = f"dkms, {source} {same}, nvidia-kernel-common-{branch} {same}"
        yield _alone(f"nvidia-dkms-{branch}{kind}", version, "nvidia-dkms-kernel", needed)
        no_dkms = f"nvidia-headless-no-dkms-{branch}{kind}"
        needed = f"{source} {same}, libnvidia-compute-{branch} {same}, nvidia-compute-utils-{branch} {same}"
        yield Package(no_dkms, version, needed)
        needed = f"{no_dkms} {same}, nvidia-dkms-{branch}{kind} {same}"
        yield Package(f"nvidia-headless-{branch}{kind}", version, needed)


def _plain(version: str) -> Iterator[Package]:
    same = f"(= {version})"
    libraries = f"libnvidia-cfg1 {same}, libnvidia-gpucomp {same}"
    yield Package("libnvidia-compute", version, libraries, files=_smi(version))
    for name in ("libnvidia-cfg1", "libnvidia-gpucomp", "nvidia-firmware"):
        yield Package(name, version)
    yield _alone("nvidia-kernel-common", version, "")
    yield _persistenced(version, f"libnvidia-cfg1 {same}")
    for kind, other in (("", "-open"), ("-open", "")):
        yield Package(f"nvidia-kernel-source{kind}", version, conflicts=f"nvidia-kernel-source{other}")
        needed = (
            f"dkms, nvidia-kernel-source{kind} {same}, nvidia-kernel-common {same}, nvidia-firmware {same}"
        )
        yield Package(f"nvidia-dkms{kind}", version, needed, f"nvidia-dkms{other}, nvidia-dkms-kernel")


def _persistenced(version: str, depends: str = "") -> Package:
    name = "nvidia-persistenced"
    return with_service(
        Package(name, version, depends, files={f"usr/bin/{name}": DAEMON}), name, f"/usr/bin/{name}"
    )


def _smi(version: str) -> dict[str, str]:
    return {"usr/bin/nvidia-smi": SMI.format(upstream=version.partition("-")[0])}


def _alone(name: str, version: str, virtual: str, depends: str = "") -> Package:
    """Return a package that excludes all others of a virtual one, as those of other branches."""
    relations = {"Provides": virtual, "Replaces": virtual} if virtual else {}
    return Package(name, version, depends, virtual, relations=relations)
