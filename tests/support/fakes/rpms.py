"""Repositories of stub RPMs, like those of NVIDIA and of a distribution with dnf.

The driver has the relations of NVIDIA's packages, without those to X.org and OpenCL. Sources, of
github.com/NVIDIA: nvidia-driver.spec of yum-packaging-nvidia-driver (015ac1c), dkms-nvidia.spec (04b62a6) and
dkms-open-nvidia.spec (090ba0e) of yum-packaging-dkms-nvidia, nvidia-kmod-common.spec of
yum-packaging-nvidia-kmod-common (006f78e), read on 2026-11-28.

What belongs here: the packages, and the script that builds them. What does not: the systems
(``tests.support.fakes.systems``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from testbed.hosts.repository import KEY

REPOSITORY: Final = "/srv/rpm"
EPEL: Final = "/srv/epel"
KMODS: Final = {"dkms": "kmod-nvidia-latest-dkms", "open": "kmod-nvidia-open-dkms"}
"""The package of the kernel module, by the ending of its module stream."""
TOOLKITS: Final = ("1.17.8", "1.18.0")

_SIGNING: Final = "--define '__gpg /usr/bin/gpg' --define '_gpg_name Tests'"
_SERVICE: Final = "nvidia-persistenced"
_UNIT: Final = "[Service]\\nExecStart=/usr/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n"


@dataclass(frozen=True)
class Distribution:
    """What differs between distributions: the ending of releases, such as el9, and the package ``identity``.

    ``headers`` is the package with those of ``kernel``. With ``streams``, NVIDIA's repository has a module of
    dnf with two streams for each branch. With ``epel``, dkms is in a repository of its own.
    """

    dist: str
    identity: tuple[str, str]
    kernel: str
    headers: str = "kernel-devel"
    streams: bool = True
    epel: bool = True


@dataclass(frozen=True)
class Rpm:
    """One package without architecture, with further lines of its specification."""

    name: str
    version: str
    release: str
    relations: tuple[str, ...] = ()


def build(distribution: Distribution, drivers: tuple[str, ...]) -> str:
    """Return the shell script that creates the signed repositories on the host."""
    dkms = Rpm("dkms", "3.2.2", f"1.{distribution.dist}")
    streams = "".join(_streams(distribution, drivers)) if distribution.streams else ""
    identity, version = distribution.identity
    return "\n".join(
        [
            "set -eu",
            f"mkdir -p {REPOSITORY} {EPEL}/noarch /root/specs && cd {REPOSITORY}",
            *(_make(package) for package in packages(distribution, drivers)),
            _make(dkms, EPEL if distribution.epel else REPOSITORY),
            "export GNUPGHOME=/root/keys && mkdir -m 700 $GNUPGHOME",
            "gpg --batch --quiet --passphrase '' --quick-generate-key Tests rsa2048 sign never",
            f"gpg --batch --quiet --armor --export | tee {EPEL}/{KEY} >{KEY}",
            f"find {REPOSITORY} {EPEL} -name '*.rpm' | xargs rpmsign {_SIGNING} --addsign >/dev/null 2>&1",
            f"createrepo_c --quiet . && createrepo_c --quiet {EPEL}",
            # Such a host has at least one package.
            f"dnf --quiet --assumeyes --nogpgcheck install {REPOSITORY}/noarch/{identity}-{version}-*.rpm",
            *([f"cat >modules.yaml <<'EOF'\n{streams}EOF"] if streams else []),
            *(["modifyrepo_c --mdtype=modules modules.yaml repodata >/dev/null"] if streams else []),
        ]
    )


def packages(distribution: Distribution, drivers: tuple[str, ...]) -> Iterator[Rpm]:
    """Yield all packages but dkms."""
    dist = distribution.dist
    for version in drivers:
        yield from _driver(version, dist)
    version, _, release = distribution.kernel.removesuffix(".x86_64").partition("-")
    yield Rpm(distribution.headers, version, release)
    for version in TOOLKITS:
        yield from _toolkit(version)
    yield Rpm("containerd.io", "1.7.27", f"3.1.{dist}")
    yield Rpm(*distribution.identity, f"1.{dist}")
    yield Rpm("dnf-plugin-nvidia", "2.2", f"1.{dist}")
    # The plugin itself comes from Debian.
    yield Rpm("python3-dnf-plugin-versionlock", "4.3.1", "1")


def _driver(version: str, dist: str) -> Iterator[Rpm]:
    """Yield the packages of one version."""
    same = f"= 3:{version}"
    relations = {
        "nvidia-driver": (
            f"Requires: nvidia-driver-libs {same}, nvidia-kmod-common {same}, dnf-plugin-nvidia",
        ),
        "nvidia-driver-libs": (),
        "nvidia-driver-cuda": (f"Requires: nvidia-driver-cuda-libs {same}, nvidia-persistenced {same}",),
        "nvidia-driver-cuda-libs": (),
        "nvidia-kmod-common": (f"Requires: nvidia-kmod {same}",),
        _SERVICE: (),
        **{name: _kmod(name, same) for name in KMODS.values()},
    }
    for name, lines in relations.items():
        yield Rpm(name, f"3:{version}", f"1.{dist}", lines)


def _kmod(name: str, same: str) -> tuple[str, ...]:
    (other,) = set(KMODS.values()) - {name}
    return (
        f"Requires: dkms, nvidia-kmod-common {same}",
        f"Provides: nvidia-kmod {same}",
        f"Conflicts: {other}",
    )


def _toolkit(version: str) -> Iterator[Rpm]:
    yield Rpm("nvidia-container-toolkit", version, "1", ("Requires: nvidia-container-toolkit-base",))
    yield Rpm("nvidia-container-toolkit-base", version, "1")
    yield Rpm("libnvidia-container-tools", version, "1", ("Requires: libnvidia-container1",))
    yield Rpm("libnvidia-container1", version, "1")


def _make(package: Rpm, folder: str = REPOSITORY) -> str:
    epoch, _, number = package.version.rpartition(":")
    unit = _unit("%{buildroot}")
    service = package.name == _SERVICE
    spec = [
        f"Name: {package.name}",
        f"Version: {number}",
        f"Release: {package.release}",
        *([f"Epoch: {epoch}"] if epoch else []),
        *package.relations,
        "Summary: Stub for tests",
        "License: none",
        "BuildArch: noarch",
        "%description",
        "Stub for tests: nothing of what the name says is inside",
        "%install",
        *([f"mkdir -p $(dirname {unit}) && printf '{_UNIT}' >{unit}"] * service),
        "%files",
        *([_unit("")] * service),
    ]
    file = f"/root/specs/{package.name}-{number}.spec"
    text = "\n".join(spec)
    return f"cat >{file} <<'EOF'\n{text}\nEOF\nrpmbuild --quiet --define '_rpmdir {folder}' -bb {file}"


def _unit(root: str) -> str:
    return f"{root}/usr/lib/systemd/system/{_SERVICE}.service"


def _streams(distribution: Distribution, drivers: tuple[str, ...]) -> Iterator[str]:
    for version in drivers:
        for ending, kmod in KMODS.items():
            kept = [
                package
                for package in _driver(version, distribution.dist)
                if package.name not in KMODS.values() or package.name == kmod
            ]
            yield _stream(f"{version.partition('.')[0]}-{ending}", kept)


def _stream(name: str, kept: list[Rpm]) -> str:
    artifacts = "".join(f"      - {each.name}-{each.version}-{each.release}.noarch\n" for each in kept)
    return f"""\
---
document: modulemd
version: 2
data:
  name: nvidia-driver
  stream: "{name}"
  version: {name.partition("-")[0]}
  context: c0ffee00
  arch: x86_64
  summary: Stub for tests
  description: Stub for tests
  license: {{module: [none]}}
  artifacts:
    rpms:
{artifacts}...
"""
