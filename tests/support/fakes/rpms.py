"""A host that reports Rocky Linux 9, with the real dnf of Debian and repositories of stub RPMs.

The driver has the relations of NVIDIA's packages, without those to X.org and OpenCL; ``dkms`` is in a
repository like EPEL. Source: nvidia-driver.spec of github.com/NVIDIA/yum-packaging-nvidia-driver (015ac1c)
and dkms-nvidia.spec of NVIDIA/yum-packaging-dkms-nvidia (04b62a6), read on 2026-11-23.

What belongs here: the base of such a host, and the packages. What does not: hosts
(``testbed.hosts``), and playbooks.
"""

from collections.abc import Iterator
from typing import Final

from testbed.hosts import DEBIAN, HostBase

REPOSITORY: Final = "/srv/rpm"
EPEL: Final = "/srv/epel"
KEY: Final = f"{REPOSITORY}/key.asc"
KERNEL: Final = "5.14.0-427.13.1.el9_4.x86_64"
DRIVERS: Final = ("535.183.01", "580.65.06")

_RELEASE: Final = """\
NAME="Rocky Linux"
VERSION="9.4 (Blue Onyx)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="9.4"
PLATFORM_ID="platform:el9"
"""
ROCKY: Final = HostBase(
    (*DEBIAN.packages, "createrepo-c", "dnf", "dnf-plugins-core", "python3-dnf", "rpm"),
    (
        f"rm -f \"$1\"/etc/os-release && printf '%s' '{_RELEASE}' >\"$1\"/etc/os-release",
        'echo "Rocky Linux release 9.4 (Blue Onyx)" >"$1"/etc/redhat-release',
        'mkdir -p "$1"/etc/yum.repos.d "$1"/etc/dnf/modules.d "$1"/etc/pki/rpm-gpg',
        # A plugin that is disabled on systems of Red Hat.
        'sed -i "s/^enabled *=.*/enabled = 0/" "$1"/etc/dnf/plugins/local.conf',
    ),
)
_SIGNING: Final = "--define '__gpg /usr/bin/gpg' --define '_gpg_name Tests'"
_UNIT: Final = "[Service]\\nExecStart=/usr/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n"


def build() -> str:
    """Return the shell script that creates the signed repositories on the host, with module streams."""
    return "\n".join(
        [
            "set -eu",
            f"mkdir -p {REPOSITORY} {EPEL} /root/specs && cd {REPOSITORY}",
            *(_package(*package) for package in _packages()),
            _package("dkms", "3.2.2", "1.el9", "", EPEL),
            "export GNUPGHOME=/root/keys && mkdir -m 700 $GNUPGHOME",
            "gpg --batch --quiet --passphrase '' --quick-generate-key Tests rsa2048 sign never",
            f"gpg --batch --quiet --armor --export >{KEY}",
            f"rpmsign {_SIGNING} --addsign noarch/*.rpm {EPEL}/noarch/*.rpm >/dev/null 2>&1",
            f"createrepo_c --quiet . && createrepo_c --quiet {EPEL}",
            # Such a host has at least one package.
            "rpm --install --force-debian --nosignature noarch/rocky-release-*.rpm",
            f"cat >modules.yaml <<'EOF'\n{''.join(_stream(version) for version in DRIVERS)}EOF",
            "modifyrepo_c --mdtype=modules modules.yaml repodata >/dev/null",
        ]
    )


def _packages() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, version, release and requirement of each package."""
    for version in DRIVERS:
        yield from ((name, f"3:{version}", "1.el9", needs) for name, needs in _driver(f"= 3:{version}"))
    version, _, release = KERNEL.removesuffix(".x86_64").partition("-")
    yield "kernel-devel", version, release, ""
    for version in ("1.16.2", "1.17.8"):
        yield "nvidia-container-toolkit", version, "1", "nvidia-container-toolkit-base"
        yield "nvidia-container-toolkit-base", version, "1", ""
        yield "libnvidia-container-tools", version, "1", "libnvidia-container1"
        yield "libnvidia-container1", version, "1", ""
    yield "containerd.io", "1.7.27", "3.1.el9", ""
    yield "rocky-release", "9.4", "1.el9", ""
    yield "dnf-plugin-nvidia", "2.2", "1.el9", ""
    # The plugin itself comes from Debian.
    yield "python3-dnf-plugin-versionlock", "4.3.1", "1", ""


def _driver(same: str) -> Iterator[tuple[str, str]]:
    """Yield name and requirements of the packages of one version."""
    libraries = f"nvidia-driver-libs {same}"
    yield "nvidia-driver", f"{libraries}, nvidia-kmod-common {same}, dnf-plugin-nvidia"
    yield "nvidia-driver-libs", ""
    yield "nvidia-driver-cuda", f"nvidia-driver-cuda-libs {same}, nvidia-persistenced {same}"
    yield "nvidia-driver-cuda-libs", ""
    yield "nvidia-kmod-common", f"kmod-nvidia-latest-dkms {same}"
    yield "kmod-nvidia-latest-dkms", f"dkms, nvidia-kmod-common {same}"
    yield "nvidia-persistenced", ""


def _package(name: str, version: str, release: str, needs: str, folder: str = REPOSITORY) -> str:
    epoch, _, number = version.rpartition(":")
    service = name == "nvidia-persistenced"
    spec = [
        f"Name: {name}",
        f"Version: {number}",
        f"Release: {release}",
        *([f"Epoch: {epoch}"] if epoch else []),
        *([f"Requires: {needs}"] if needs else []),
        "Summary: Stub for tests",
        "License: none",
        "BuildArch: noarch",
        "%description",
        "Stub for tests: nothing of what the name says is inside",
        "%install",
        *(
            [f"mkdir -p %{{buildroot}}/usr/lib/systemd/system && printf '{_UNIT}' >{_unit('%{buildroot}')}"]
            * service
        ),
        "%files",
        *([_unit("")] * service),
    ]
    file = f"/root/specs/{name}-{number}.spec"
    text = "\n".join(spec)
    return f"cat >{file} <<'EOF'\n{text}\nEOF\nrpmbuild --quiet --define '_rpmdir {folder}' -bb {file}"


def _unit(root: str) -> str:
    return f"{root}/usr/lib/systemd/system/nvidia-persistenced.service"


def _stream(version: str) -> str:
    branch = version.partition(".")[0]
    names = [name for name, number, _, _ in _packages() if number == f"3:{version}"]
    artifacts = "".join(f"      - {name}-3:{version}-1.el9.noarch\n" for name in names)
    return f"""\
---
document: modulemd
version: 2
data:
  name: nvidia-driver
  stream: "{branch}-dkms"
  version: {branch}
  context: c0ffee00
  arch: x86_64
  summary: Stub for tests
  description: Stub for tests
  license: {{module: [none]}}
  artifacts:
    rpms:
{artifacts}...
"""
