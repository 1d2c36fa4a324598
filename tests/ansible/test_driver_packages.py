"""The packages of a driver, from a repository with the relations of the real archives, by the real apt.

``testbed.hosts.stubs.driver`` has the relations and their sources. Nothing is installed.
"""

import re
import shutil
from typing import Any

import pytest
import yaml

from ansible_collections.gpushare.nodes.plugins.plugin_utils import driver_plan, package_versions
from testbed.hosts.stubs.driver import PERSISTENCED, driver_packages
from tests.ansible.simulated_apt import Apt, Installed
from tools.role_docs import ROLES

pytestmark = pytest.mark.skipif(not shutil.which("apt-get"), reason="apt-get is not installed")

OLD, NEW = "535.183.01", "580.178.04"
OFFERED = driver_packages("6.1.0-50-amd64")
LISTING = "\n".join(f"{each.name} | {each.version} |" for each in OFFERED)
VARIABLES = yaml.safe_load((ROLES / "nvidia_driver/vars/main.yml").read_text())


@pytest.fixture(scope="module")
def apt(tmp_path_factory: pytest.TempPathFactory) -> Apt:
    return Apt(tmp_path_factory.mktemp("apt"), OFFERED)


def facts(installed: Installed) -> dict[str, Any]:
    """The installed packages as Ansible's package_facts has them."""
    return {name: [{"version": version}] for name, version in installed.items()}


def parts(version: str, installed: Installed, *, opened: bool = False) -> list[str]:
    """The names that the role installs on Debian."""
    text = (ROLES / "nvidia_driver/vars/Debian.yml").read_text()
    text = text.replace("{{ __nvidia_driver_open }}", "-open" if opened else "")
    groups = yaml.safe_load(text)["__nvidia_driver_usual"]["dkms"]
    return package_versions.chosen(groups, version, LISTING, facts(installed))


def change(apt: Apt, version: str, installed: Installed, *, opened: bool = False) -> dict[str, str]:
    """The packages after a run of the role that installs ``version``, where all of its packages are held."""
    names, known = parts(version, installed, opened=opened), facts(installed)
    pattern = re.search(
        r"packages_left_behind\('([^']+)',\s+'([^']+)'", VARIABLES["__nvidia_driver_left_behind"]
    )
    assert pattern
    replaced = driver_plan.other_modules(known, "open" if opened else "proprietary")
    left = package_versions.left_behind(known, pattern[1], pattern[2], version)
    along = [name for name in left if name not in replaced]
    requested = package_versions.pins([*names, *along], version, LISTING)
    apt.pin(version)
    removed = [name for name in driver_plan.stale_modules(known, version) if name not in requested]
    held = set(parts_of(installed)) - {*along, *replaced, *removed}
    after = apt.run(installed, requested, held, removed)
    daemon = package_versions.of_branch(LISTING, "nvidia-persistenced", version)
    return apt.run(after, {"nvidia-persistenced": daemon})


def parts_of(installed: Installed) -> list[str]:
    """The packages that an earlier run of the role holds."""
    versions = {package_versions.upstream(version) for version in installed.values()}
    kinds = [(version, opened) for version in versions & {OLD, NEW} for opened in (False, True)]
    return [name for version, opened in kinds for name in parts(version, installed, opened=opened)]


def has_compute(installed: Installed, version: str) -> bool:
    """Whether programs get the CUDA library, and the host has nvidia-smi, daemon and module."""
    smi = "nvidia-smi" if version == OLD else "nvidia-driver-cuda"
    wanted = ("libcuda1", "libnvidia-ml1", "nvidia-kernel-dkms", smi)
    daemon = PERSISTENCED if version == OLD else f"{version}-1"
    return installed.get("nvidia-persistenced") == daemon and all(
        installed.get(name) == f"{version}-1" for name in wanted
    )


def test_the_driver_of_debian_lacks_what_gpu_nodes_need(apt: Apt) -> None:
    apt.pin(OLD)
    desktop = apt.run({}, dict.fromkeys(("nvidia-driver", "nvidia-kernel-dkms"), f"{OLD}-1"))
    assert "xserver-xorg-video-nvidia" in desktop
    assert not desktop.keys() & {"nvidia-smi", "nvidia-persistenced", "libcuda1"}


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_role_installs_what_gpu_nodes_need_and_no_graphics(apt: Apt, version: str) -> None:
    installed = change(apt, version, {})
    assert has_compute(installed, version)
    assert not installed.keys() & {"nvidia-driver", "xserver-xorg-video-nvidia"}


def test_an_upgrade_to_other_names_and_its_rollback_leave_one_version(apt: Apt) -> None:
    upgraded = change(apt, NEW, change(apt, OLD, {}))
    assert has_compute(upgraded, NEW)
    assert "nvidia-smi" not in upgraded
    assert has_compute(change(apt, OLD, upgraded), OLD)


@pytest.mark.parametrize(("before", "was_open"), [(OLD, False), (NEW, False), (NEW, True)])
def test_a_module_of_the_other_kind_replaces_the_held_one(apt: Apt, before: str, was_open: bool) -> None:  # noqa: FBT001 - of a table
    installed = change(apt, NEW, change(apt, before, {}, opened=was_open), opened=not was_open)
    wanted, other = "nvidia-kernel-open-dkms", "nvidia-kernel-dkms"
    if was_open:
        wanted, other = other, wanted
    assert installed[wanted] == f"{NEW}-1"
    assert other not in installed


def test_an_open_module_with_another_name_is_replaced_and_rolled_back(apt: Apt) -> None:
    upgraded = change(apt, NEW, change(apt, OLD, {}, opened=True), opened=True)
    assert modules(upgraded) == {"nvidia-kernel-open-dkms": f"{NEW}-1"}
    assert modules(change(apt, OLD, upgraded, opened=True)) == {"nvidia-open-kernel-dkms": f"{OLD}-1"}


def modules(installed: Installed) -> dict[str, str]:
    return {name: version for name, version in installed.items() if name.endswith("-dkms")}


def test_upgrades_of_the_system_keep_the_driver_even_without_holds(apt: Apt) -> None:
    installed = change(apt, OLD, {})
    assert apt.upgrades(installed) == []
    apt.unpin()
    assert "libcuda1" in apt.upgrades(installed)


def test_apt_does_not_replace_a_held_package_so_the_role_releases_it(apt: Apt) -> None:
    installed = change(apt, OLD, {})
    apt.pin(NEW)
    requested = {"nvidia-driver-cuda": f"{NEW}-1"}
    with pytest.raises(AssertionError, match="held packages"):
        apt.run(installed, requested, ["nvidia-smi"])
    assert "nvidia-smi" not in apt.run(installed, requested)


def test_hosts_with_the_packages_of_earlier_releases_are_upgraded(apt: Apt) -> None:
    apt.pin(OLD)
    earlier = apt.run({}, dict.fromkeys(("nvidia-driver", "nvidia-kernel-dkms"), f"{OLD}-1"))
    assert has_compute(change(apt, NEW, earlier), NEW)


def test_the_open_module_has_its_name_in_each_archive() -> None:
    assert "nvidia-open-kernel-dkms" in parts(OLD, {}, opened=True)
    assert "nvidia-kernel-open-dkms" in parts(NEW, {}, opened=True)
