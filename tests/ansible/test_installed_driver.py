"""Which driver a host has, by its packages. The names are those of ``testbed/hosts/stubs/nvidia.toml``."""

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.driver_packages import installed
from ansible_collections.gpushare.nodes.plugins.plugin_utils.driver_plan import plan

ASKED = {
    "target": "580.65.06",
    "reboot": True,
    "kernel_module": "dkms",
    "kernel_module_type": "proprietary",
    "preferred_module": "",
    "secure_boot": "refuse",
}


def host(**packages: str) -> dict[str, list[dict[str, str]]]:
    return {
        "bash": [{"version": "5.2-1"}],
        **{name.replace("_", "-"): [{"version": each}] for name, each in packages.items()},
    }


@pytest.mark.parametrize(
    "packages",
    [
        # NVIDIA's repository for Ubuntu from branch 590 on, for computing only.
        {"libnvidia_compute": "595.71.05-1ubuntu1", "nvidia_dkms_open": "595.71.05-1ubuntu1"},
        {"nvidia_dkms": "595.71.05-1ubuntu1"},
        {"nvidia_dkms_open": "595.71.05-1ubuntu1"},
        {"nvidia_headless": "595.71.05-1ubuntu1"},
        # Ubuntu.
        {"libnvidia_compute_595_server": "595.71.05-0ubuntu0.24.04.1"},
        {"nvidia_headless_no_dkms_595_server_open": "595.71.05-0ubuntu0.24.04.1"},
        # NVIDIA's repository for Debian, and Debian.
        {"nvidia_driver_cuda": "595.71.05-1", "nvidia_kernel_open_dkms": "595.71.05-1"},
        {"libcuda1": "595.71.05-1~deb13u1"},
        {"nvidia_open_kernel_dkms": "595.71.05-1"},
        {"nvidia_driver": "595.71.05-1"},
        # RPMs, with epoch and release apart.
        {"nvidia_driver_cuda_libs": "595.71.05"},
        {"kmod_nvidia_open_dkms": "595.71.05"},
        {"kmod_nvidia_latest_dkms": "595.71.05"},
        {"nvidia_compute_G07": "595.71.05"},
    ],
)
def test_a_driver_is_found_in_every_layout(packages: dict[str, str]) -> None:
    assert installed(host(**packages)) == "595.71.05"


@pytest.mark.parametrize(
    "packages",
    [
        {},
        {"nvidia_container_toolkit": "1.20.1-1", "libnvidia_container1": "1.20.1-1"},
        {"nvidia_driver_pinning_595": "595-1"},
        {"nvidia_driver_assistant": "0.51.71.05-1"},
        {"nvidia_modprobe": "535.161.07-1"},
        {"linux_modules_nvidia_595_open_6.8.0_40_generic": "6.8.0-40.40+1"},
    ],
)
def test_other_packages_of_nvidia_are_no_driver(packages: dict[str, str]) -> None:
    assert installed(host(**packages)) == ""


def test_of_two_libraries_the_newer_one_counts() -> None:
    both = {"libnvidia_compute_580": "580.65.06-0ubuntu1", "libnvidia_compute": "595.71.05-1ubuntu1"}
    assert installed(host(**both)) == "595.71.05"


def test_a_driver_for_computing_is_no_empty_host() -> None:
    packages = host(libnvidia_compute="595.71.05-1ubuntu1", nvidia_dkms_open="595.71.05-1ubuntu1")
    found = {
        "installed": installed(packages),
        "loaded": "595.71.05",
        "on_disk": "595.71.05",
        "packages": packages,
        "nouveau": False,
        "reboot_due": False,
        "secure_boot": {"enabled": None, "module_key": None},
        "gpus": [],
    }
    # The role refuses the downgrade before, because the version is known.
    assert plan(found, ASKED)["reasons"] == ["driver 595.71.05 becomes 580.65.06"]
    kept = plan(found, {**ASKED, "target": "595.71.05", "kernel_module_type": "open"})
    assert (kept["changes"], kept["needs_reboot"]) == (False, False)
    other = plan(found, {**ASKED, "target": "595.71.05"})
    assert other["reasons"] == ["the open kernel module becomes the proprietary one"]
    assert other["replaces"] == ["nvidia-dkms-open"]


def test_the_proprietary_module_without_a_branch_is_a_module_too() -> None:
    packages = host(libnvidia_compute="595.71.05-1ubuntu1", nvidia_dkms="595.71.05-1ubuntu1")
    found = {
        "installed": "595.71.05",
        "loaded": "595.71.05",
        "on_disk": "595.71.05",
        "packages": packages,
        "nouveau": False,
        "reboot_due": False,
        "secure_boot": {"enabled": None, "module_key": None},
        "gpus": [],
    }
    other = plan(found, {**ASKED, "target": "595.71.05", "kernel_module_type": "open"})
    assert other["reasons"] == ["the proprietary kernel module becomes the open one"]
    assert other["replaces"] == ["nvidia-dkms"]
