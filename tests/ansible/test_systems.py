"""The table of systems, and which of its rows a host counts as."""

import re

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.systems import (
    OTHER_KEYS,
    SYSTEMS,
    counts_as,
    of_host,
)
from tools.role_docs import ROLES


def os(system: str, version: str, like: str = "") -> dict[str, str]:
    return {"id": system, "version": version, "like": like, "name": system}


# As their os-release files have it.
@pytest.mark.parametrize(
    ("found", "name"),
    [
        (os("ubuntu", "24.04", "debian"), "ubuntu 24.04"),
        (os("ubuntu", "26.04", "debian"), "ubuntu 26.04"),
        (os("debian", "13"), "debian 13"),
        (os("rhel", "10.1", "centos fedora"), "rhel 10"),
        (os("rocky", "9.6", "rhel centos fedora"), "rhel 9"),
        (os("almalinux", "10.0", "rhel centos fedora"), "rhel 10"),
        (os("ol", "9.6", "fedora"), "rhel 9"),
        (os("centos", "9", "rhel fedora"), "rhel 9"),
        (os("centos", "7.9", "rhel fedora"), "centos 7"),
        (os("centos", "8", "rhel fedora"), "rhel 8"),
        (os("amzn", "2023", "fedora"), "amzn 2023"),
        (os("alinux", "3", "rhel fedora centos anolis"), "alinux 3"),
        (os("sles", "15.7", "suse"), "sles 15"),
        (os("azurelinux", "3.0"), "azurelinux 3"),
    ],
)
def test_a_rebuild_counts_as_its_parent(found: dict[str, str], name: str) -> None:
    system = counts_as(found)
    assert system
    assert system.name == name


@pytest.mark.parametrize(
    "found",
    [
        os("ubuntu", "20.04", "debian"),
        os("ubuntu", "22.10", "debian"),
        os("linuxmint", "22", "ubuntu debian"),
        os("rocky", "90", "rhel centos fedora"),
        os("fedora", "43"),
        os("openEuler", "24.03"),
        os("amzn", "2", "centos rhel fedora"),
        os("", ""),
    ],
)
def test_another_version_or_system_is_unknown(found: dict[str, str]) -> None:
    assert of_host(found) == {}


@pytest.mark.parametrize(
    ("name", "repository", "key"),
    [
        ("ubuntu 24.04", "ubuntu2404", "3bf863cc.pub"),
        ("ubuntu 26.04", "ubuntu2604", "60DF8A40.pub"),
        ("debian 12", "debian12", "3bf863cc.pub"),
        ("debian 13", "debian13", "8793F200.pub"),
        ("rhel 9", "rhel9", "D42D0685.pub"),
        ("rhel 10", "rhel10", "CDF6BA43.pub"),
        ("amzn 2023", "amzn2023", "D42D0685.pub"),
    ],
)
def test_each_repository_has_its_own_key(name: str, repository: str, key: str) -> None:
    (system,) = [each for each in SYSTEMS if each.name == name]
    assert (system.repository, system.key.file) == (repository, key)


def test_each_key_can_be_recognised() -> None:
    for key in {each.key for each in SYSTEMS} | set(OTHER_KEYS.values()):
        assert re.fullmatch(r"[0-9A-F]{40}", key.fingerprint) or re.fullmatch(r"[0-9a-f]{64}", key.sha256)


def test_systems_with_packages_have_variables_of_the_driver() -> None:
    folders = (ROLES / "nvidia_driver/vars", ROLES.parent / "legacy/vars")
    files = {file.stem for folder in folders for file in folder.glob("*.yml")}
    assert {each.variables for each in SYSTEMS} - {""} <= files


def test_the_page_has_every_repository_and_key() -> None:
    page = (ROLES.parents[1] / "docs/how-to/prepare-nodes.md").read_text()
    table = page[page.index("## Systems") : page.index("## Keys, mirrors and proxies")]
    installed = [each for each in SYSTEMS if each.variables]
    assert {f"`{each.repository}`" for each in installed} <= set(re.findall(r"`[a-z0-9]+`", table))
    rows = [line for line in table.splitlines() if line.startswith("|")]
    for each in installed:
        (row,) = [line for line in rows if f"`{each.repository}`" in line]
        assert f"`{each.key.file}`" in row
        assert each.legacy or f"| {'yes' if each.key.shipped else 'no'} |" in row
