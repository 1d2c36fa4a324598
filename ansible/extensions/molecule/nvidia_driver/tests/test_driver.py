"""All packages of the driver have the requested version and keep it; see also side_effect.yml."""

from collections.abc import Callable

import pytest
from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]
VERSION = "535.183.01"
"""Of both hosts: gpu-1 was upgraded and rolled back."""
BRANCH = "535"
PARTS = ("libcuda1", "nvidia-cuda-mps", "nvidia-smi")
MODULES = {"gpu-1": "nvidia-open-kernel-dkms", "gpu-2": "nvidia-kernel-dkms"}
"""By the GPUs of the host: T4 and V100."""
DESKTOP = ("nvidia-driver", "xserver-xorg-video-nvidia", "nvidia-driver-cuda")
REBOOT_PENDING = "/run/gpushare-nvidia-driver.reboot"
PREVIOUS = "/var/lib/gpushare-nvidia-driver.previous"


def test_there_are_two_hosts(names_of: Callable[[str], list[str]]) -> None:
    assert names_of("gpu_nodes") == ["gpu-1", "gpu-2"]


@pytest.mark.parametrize("name", PARTS)
def test_every_package_has_the_version_although_newer_ones_are_available(host: Host, name: str) -> None:
    assert host.package(name).version == f"{VERSION}-1"


def test_the_kernel_module_is_the_one_that_serves_the_gpus(host: Host) -> None:
    there = {name for name in MODULES.values() if host.package(name).is_installed}
    assert there == {MODULES[host.check_output("hostname")]}
    assert all(host.package(name).version == f"{VERSION}-1" for name in there)


@pytest.mark.parametrize("name", DESKTOP)
def test_packages_for_desktops_and_of_the_other_version_are_absent(host: Host, name: str) -> None:
    assert not host.package(name).is_installed


def test_later_kernels_bring_their_headers(host: Host) -> None:
    assert host.package("linux-headers-amd64").is_installed


def test_only_the_host_with_an_nvswitch_runs_the_fabric_manager_of_the_driver(host: Host) -> None:
    package = host.package("nvidia-fabricmanager-535")
    if host.check_output("hostname") == "gpu-2":
        assert package.version == f"{VERSION}-1"
        assert host.service("nvidia-fabricmanager").is_running
        assert host.service("nvidia-fabricmanager").is_enabled
    else:
        assert not package.is_installed


def test_the_module_is_built_for_the_running_kernel(host: Host) -> None:
    assert host.file(f"/var/lib/dkms/nvidia/{VERSION}/{host.check_output('uname -r')}").is_directory


def test_other_upgrades_keep_the_driver(host: Host) -> None:
    fabric = ["nvidia-fabricmanager-535"] * (host.check_output("hostname") == "gpu-2")
    module = MODULES[host.check_output("hostname")]
    assert host.check_output("apt-mark showhold").split() == sorted([*PARTS, module, *fabric])
    unpinned = "-o Dir::Etc::PreferencesParts=/nonexistent"
    assert f"Inst {module}" not in host.check_output(f"apt-get --simulate {unpinned} dist-upgrade")
    upgrades = host.check_output("apt-get --simulate dist-upgrade").splitlines()
    changed = [line for line in upgrades if line.startswith("Inst ") and "nvidia" in line]
    # A rollback leaves nvidia-modprobe, which has other versions than the driver, as the later one had it.
    assert not [line for line in changed if f"({BRANCH}." not in line]


def test_nouveau_is_disabled(host: Host) -> None:
    assert "blacklist nouveau" in host.file("/etc/modprobe.d/gpushare-nouveau.conf").content_string


def test_the_persistence_daemon_runs(host: Host) -> None:
    service = host.service("nvidia-persistenced")
    assert service.is_running
    assert service.is_enabled


def test_the_previous_version_is_recorded(host: Host) -> None:
    if host.check_output("hostname") == "gpu-2":
        assert not host.file(PREVIOUS).exists
    else:
        assert host.file(PREVIOUS).content_string == f"{VERSION}\n"


def test_no_reboot_is_pending(host: Host) -> None:
    assert not host.file(REBOOT_PENDING).exists


def test_refused_versions_left_no_trace(host: Host) -> None:
    pins = host.file("/etc/apt/preferences.d/gpushare-nvidia-driver").content_string
    assert "580" not in pins
    assert host.check_output("dpkg --audit") == ""
