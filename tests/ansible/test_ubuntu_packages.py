"""The driver on Ubuntu, before and after NVIDIA's names lose the branch, by the real apt.

The packages are ``testbed/hosts/stubs/ubuntu_driver``; nothing is installed.
"""

import shutil
from typing import Any

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from ansible_collections.gpushare.nodes.plugins.plugin_utils import (
    driver_packages,
    driver_plan,
    package_versions,
)
from testbed.hosts.stubs import Package
from testbed.hosts.stubs.ubuntu_driver import of_ubuntu
from tests.ansible.simulated_apt import Apt, Installed
from tools.role_docs import ROLES

pytestmark = pytest.mark.skipif(not shutil.which("apt-get"), reason="apt-get is not installed")

OLD, MIDDLE, NEW = "580.65.06", "595.71.05", "615.71.09"
OFFERED = [
    *(package for version in (OLD, MIDDLE, NEW) for package in of_ubuntu("ubuntu2404", version)),
    # Ubuntu's own archive has the same version under names with the branch.
    Package("nvidia-utils-595", f"{MIDDLE}-0ubuntu0.24.04.1", conflicts="nvidia-utils"),
    Package("dkms", "3.0.11-1ubuntu13"),
]
LISTING = "\n".join(f"{each.name} | {each.version} |" for each in OFFERED)
VARIABLES = yaml.safe_load((ROLES / "nvidia_driver/vars/Ubuntu.yml").read_text())


@pytest.fixture(scope="module")
def apt(tmp_path_factory: pytest.TempPathFactory) -> Apt:
    return Apt(tmp_path_factory.mktemp("apt"), OFFERED)


def facts(installed: Installed) -> dict[str, Any]:
    """The installed packages as Ansible's package_facts has them."""
    return {name: [{"version": version}] for name, version in installed.items()}


def parts(version: str, installed: Installed, *, opened: bool = False) -> list[str]:
    """The names that the role installs on Ubuntu 24.04."""
    known: dict[str, Any] = {
        "__nvidia_driver_branch": version.partition(".")[0],
        "__nvidia_driver_open": "-open" if opened else "",
        "__nvidia_driver_system": {"unversioned_from": 590},
        "nvidia_driver_persistence": True,
    }
    render = NativeEnvironment()
    for name in ("__nvidia_driver_headless", "__nvidia_driver_utils"):
        known[name] = [render.from_string(text).render(known) for text in VARIABLES[name]]
    groups = render.from_string(VARIABLES["__nvidia_driver_usual"]["dkms"]).render(known)
    return package_versions.chosen(groups, version, LISTING, facts(installed))


def change(apt: Apt, version: str, installed: Installed, *, opened: bool = False) -> dict[str, str]:
    """The packages after a run of the role that installs ``version``; those of an earlier run are held."""
    known = facts(installed)
    replaced = driver_plan.other_modules(known, "open" if opened else "proprietary")
    left = package_versions.left_behind(known, "nvidia", r"[0-9]{3}[.][0-9]+([.][0-9]+)?", version)
    along = [name for name in left if name not in replaced]
    requested = package_versions.pins([*parts(version, installed, opened=opened), *along], version, LISTING)
    apt.pin(version)
    held, gone = (
        set(of_role(installed)) - {*along, *replaced},
        [name for name in left if name not in requested],
    )
    return apt.run(installed, requested, held, gone)


def of_role(installed: Installed) -> list[str]:
    """The packages that an earlier run of the role has named."""
    before = driver_packages.installed(facts(installed))
    return (
        [name for opened in (False, True) for name in parts(before, installed, opened=opened)]
        if before
        else []
    )


def drivers(installed: Installed) -> set[str]:
    """The versions of all packages of the driver."""
    return {package_versions.upstream(each) for name, each in installed.items() if name != "dkms"}


@pytest.mark.parametrize("version", [OLD, MIDDLE, NEW])
@pytest.mark.parametrize("opened", [True, False])
def test_a_driver_of_each_layout_is_installed(apt: Apt, version: str, opened: bool) -> None:  # noqa: FBT001 - of a table
    installed = change(apt, version, {}, opened=opened)
    assert drivers(installed) == {version}
    assert "nvidia-persistenced" in installed
    assert driver_packages.installed(facts(installed)) == version


def test_from_590_on_nothing_of_ubuntus_archive_is_mixed_in(apt: Apt) -> None:
    assert parts(MIDDLE, {}) == ["libnvidia-compute", "nvidia-dkms", "nvidia-persistenced"]
    assert "nvidia-utils-595" not in change(apt, MIDDLE, {})


def test_without_nvidias_repository_the_names_are_those_of_ubuntu() -> None:
    listing = (
        "nvidia-headless-595-server | 595.71.05-0ubuntu1 |\nnvidia-utils-595-server | 595.71.05-0ubuntu1 |"
    )
    groups = [
        ["libnvidia-compute", "nvidia-headless-595", "nvidia-headless-595-server"],
        ["nvidia-dkms", "nvidia-headless-595", "nvidia-headless-595-server"],
        ["libnvidia-compute", "nvidia-utils-595", "nvidia-utils-595-server"],
    ]
    found = package_versions.chosen(groups, MIDDLE, listing, {})
    assert found == ["nvidia-headless-595-server", "nvidia-utils-595-server"]


def test_an_upgrade_over_the_new_names_and_its_rollback_leave_one_version(apt: Apt) -> None:
    upgraded = change(apt, NEW, change(apt, OLD, {}, opened=True), opened=True)
    assert drivers(upgraded) == {NEW}
    assert not [name for name in upgraded if "580" in name]
    back = change(apt, OLD, upgraded, opened=True)
    assert drivers(back) == {OLD}
    assert driver_packages.installed(facts(back)) == OLD


def test_the_other_module_replaces_the_held_one(apt: Apt) -> None:
    installed = change(apt, NEW, change(apt, NEW, {}), opened=True)
    assert "nvidia-dkms-open" in installed
    assert "nvidia-dkms" not in installed
