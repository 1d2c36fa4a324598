"""What images contain, from layouts as podman writes them, and their SBOMs."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gpushare.errors import ConfigError
from release import layout
from release.build import BASE_DAY
from release.contents import DebianPackage, PythonPackage, installed, read
from release.sbom import components, document

# Paragraphs of /var/lib/dpkg/status of Debian 12 (dpkg 1.21.22, 2026-11-28), with their rarer forms: epoch,
# binary rebuild, source of another name, lists of files, descriptions that look like fields, removed packages
# whose configuration is left, and a maintainer in Latin-1, as in packages of old repositories.
STATUS = b"""\
Package: login
Essential: yes
Status: install ok installed
Priority: required
Maintainer: Shadow package maintainers <pkg-shadow-devel@lists.alioth.debian.org>
Architecture: amd64
Multi-Arch: foreign
Source: shadow
Version: 1:4.13+dfsg1-1+deb12u1
Conffiles:
 /etc/login.defs f43a7b1eb7e082f1d4e2cb8f8376e71b
 /etc/pam.d/login 5afbc06eb5f71fef25170cf3c936a442
Description: system login tools
 This package provides some required infrastructure for logins and for
 changing effective user or group IDs, including:
 Status: purge ok not-installed
 .
  * login, the program that invokes a user shell on a virtual terminal;

Package: libcap2
Status: hold ok installed
Architecture: amd64
Source: libcap2 (1:2.66-4+deb12u2)
Version: 1:2.66-4+deb12u2+b2

Package: libstdc++6
Status: install ok installed
Maintainer: Andr\xe9 <andre@example.com>
Architecture: amd64
Source: gcc-12
Version: 12.2.0-14+deb12u1

Package: tzdata
Status: deinstall ok config-files
Architecture: all
Version: 2024a-0+deb12u1
Config-Version: 2024a-0+deb12u1

Package: half
Status: install reinstreq half-installed
Architecture: all
Version: 1
"""
OS_RELEASE = b'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n# Comment=1\n'
# Of debian:bookworm, 2025-05-20.
ARCHIVES = b"""\
Types: deb
# http://snapshot.debian.org/archive/debian/20250520T000000Z
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
"""
SITE = "app/.venv/lib/python3.11/site-packages"
METADATA = b"""\
Metadata-Version: 2.4
Name: Click_Extra
Version: 8.5.1
License-Expression: BSD-3-Clause

Name: no
"""
AMD64 = "arch=amd64&distro=debian-12"
LIBRARY = "usr/local/lib/gpushare/libgpushare.so"
KERNEL = "app/.venv/lib/gpushare/libgpushare-replay.so"


class Layout:
    """A layout in the making: gzipped layers, as ``podman push --compression-format=gzip`` writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def blob(self, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        file = self.folder / "blobs/sha256" / digest
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    def image(
        self, layers: Sequence[Mapping[str, bytes]], *, arch: str = "amd64", env: Sequence[str] = ()
    ) -> str:
        settings = {"Env": list(env), "Labels": {BASE_DAY: "2026-11-27", "maintainer": "us"}}
        config = {"architecture": arch, "os": "linux", "config": settings}
        manifest = {
            "config": self.blob(json.dumps(config).encode()),
            "layers": [self.blob(gzip.compress(archive(files))) for files in layers],
        }
        return str(self.blob(json.dumps(manifest).encode())["digest"])


def archive(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        link = tarfile.TarInfo("etc/os-release")
        link.type, link.linkname = tarfile.SYMTYPE, "../usr/lib/os-release"
        tar.addfile(link)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def made(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "built/1")


BASE = {"var/lib/dpkg/status": STATUS, "usr/lib/os-release": OS_RELEASE, "usr/bin/python3.11": b"elf"}
APP = {
    f"{SITE}/click_extra-8.5.1.dist-info/METADATA": METADATA,
    f"{SITE}/click_extra-8.5.1.dist-info/RECORD": b"",
    LIBRARY: b"elf",
    KERNEL: b"so",
}


def test_only_installed_packages_are_listed_with_their_sources() -> None:
    assert list(installed(STATUS.decode(errors="replace"))) == [
        DebianPackage("login", "1:4.13+dfsg1-1+deb12u1", "amd64", "shadow", "1:4.13+dfsg1-1+deb12u1"),
        DebianPackage("libcap2", "1:2.66-4+deb12u2+b2", "amd64", "libcap2", "1:2.66-4+deb12u2"),
        DebianPackage("libstdc++6", "12.2.0-14+deb12u1", "amd64", "gcc-12", "12.2.0-14+deb12u1"),
    ]


def test_an_image_is_read_from_all_its_layers(made: Layout) -> None:
    found = read(made.folder, made.image([BASE, APP]))
    assert (found.system["ID"], found.system["VERSION_ID"], found.platform) == ("debian", "12", "linux/amd64")
    assert [each.name for each in found.debian] == ["libcap2", "libstdc++6", "login"]
    assert found.distributions == [PythonPackage("Click_Extra", "8.5.1", "BSD-3-Clause")]
    assert found.libraries == {
        f"/{LIBRARY}": hashlib.sha256(b"elf").hexdigest(),
        f"/{KERNEL}": hashlib.sha256(b"so").hexdigest(),
    }
    assert not found.python


@pytest.mark.parametrize(
    "whiteout",
    [f"{SITE}/.wh.click_extra-8.5.1.dist-info", "app/.wh..wh..opq", "app/.venv/lib/.wh.python3.11"],
)
def test_what_a_later_layer_removes_is_not_in_the_image(made: Layout, whiteout: str) -> None:
    found = read(made.folder, made.image([BASE, APP, {whiteout: b""}]))
    assert not found.distributions
    assert found.libraries


def test_a_later_layer_replaces_the_status_of_an_earlier_one(made: Layout) -> None:
    upgraded = STATUS.replace(b"12.2.0-14+deb12u1", b"12.2.0-14+deb12u9")
    found = read(made.folder, made.image([BASE, {"./var/lib/dpkg/status": upgraded}]))
    assert {each.version for each in found.debian if each.name == "libstdc++6"} == {"12.2.0-14+deb12u9"}


def test_a_python_that_no_package_has_is_listed(made: Layout) -> None:
    """As in Docker's images: compiled into /usr/local, with its own pip."""
    pip = {
        "usr/local/lib/python3.11/site-packages/pip-24.0.dist-info/METADATA": b"Name: pip\nVersion: 24.0\n"
    }
    layers = [BASE, {"usr/local/bin/python3.11": b"elf", **pip}]
    found = read(made.folder, made.image(layers, env=["LANG=C.UTF-8", "PYTHON_VERSION=3.11.16"]))
    (python,) = [each for each in components(found) if each["name"] == "python"]
    assert (python["purl"], python["cpe"].split(":")[4:6]) == (
        "pkg:generic/python@3.11.16",
        ["python", "3.11.16"],
    )
    assert [each.name for each in found.distributions] == ["pip"]


def test_the_age_of_an_image_of_docker_is_in_its_list_of_archives(made: Layout) -> None:
    found = read(made.folder, made.image([{**BASE, "etc/apt/sources.list.d/debian.sources": ARCHIVES}, APP]))
    assert found.snapshot == date(2025, 5, 20)
    assert "2025-05-20" in document("cli", "sha256:1", found)
    assert read(made.folder, made.image([BASE])).snapshot is None


def test_of_several_platforms_the_first_is_read(made: Layout) -> None:
    images = [{"digest": made.image([BASE], arch=arch)} for arch in ("amd64", "arm64")]
    found = read(made.folder, str(made.blob(json.dumps({"manifests": images}).encode())["digest"]))
    assert found.platform == "linux/amd64"


def test_an_image_without_a_distribution_has_an_empty_list(made: Layout) -> None:
    assert components(read(made.folder, made.image([{"hello": b""}]))) == []


def test_the_sbom_names_packages_as_scanners_compare_them(made: Layout) -> None:
    """Debian's advisories are about source packages."""
    text = document("extender", "sha256:1", read(made.folder, made.image([BASE, APP])))
    bom = json.loads(text)
    assert [each.get("purl") for each in bom["components"]] == [
        None,
        f"pkg:deb/debian/libcap2@1%3A2.66-4%2Bdeb12u2%2Bb2?{AMD64}&upstream=libcap2%401%3A2.66-4%2Bdeb12u2",
        f"pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?{AMD64}&upstream=gcc-12",
        f"pkg:deb/debian/login@1%3A4.13%2Bdfsg1-1%2Bdeb12u1?{AMD64}&upstream=shadow",
        "pkg:pypi/click-extra@8.5.1",
        *(each["purl"] for each in bom["components"][-2:]),
    ]
    system, *_, library = bom["components"]
    assert (system["type"], system["name"], system["version"]) == ("operating-system", "debian", "12")
    assert library["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"elf").hexdigest()}]
    references = [each["bom-ref"] for each in bom["components"]]
    assert len(set(references)) == len(references)


def test_the_sbom_says_what_it_covers_and_has_no_time(made: Layout) -> None:
    metadata = json.loads(document("cli", "sha256:1", read(made.folder, made.image([BASE]))))["metadata"]
    assert metadata["component"]["version"] == "sha256:1"
    properties = {each["name"]: each["value"] for each in metadata["properties"]}
    assert "dpkg" in properties["gpushare:covers"]
    assert "wheels" in properties["gpushare:lacks"]
    assert properties["gpushare:platform"] == "linux/amd64"
    assert properties[BASE_DAY] == "2026-11-27"
    assert "maintainer" not in properties
    assert "timestamp" not in metadata


def test_the_layout_of_an_image_is_one_of_the_last_builds(made: Layout, tmp_path: Path) -> None:
    (tmp_path / "built/0").mkdir(parents=True)
    digest = made.image([BASE])
    assert layout.holding(tmp_path / "built", digest) == made.folder
    with pytest.raises(ConfigError, match="run make images"):
        layout.holding(tmp_path / "built", "sha256:0")
