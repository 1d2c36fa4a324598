"""Each system gets its repository, key and packages of the driver; CentOS 7 is in ``ansible/legacy``."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.cores import Ended, play, printed
from tools.role_docs import ROLES

TASKS = {
    task["name"]: task for task in yaml.safe_load((ROLES / "nvidia_driver/tasks/preflight.yml").read_text())
}
REFUSE = TASKS["Refuse a system for which the driver's repository is not known"]
LOAD = TASKS["Load the variables of the system"]
WITHOUT_MODULE = TASKS["Refuse a kernel module that the distribution does not have"]
ROLE: dict[str, Any] = {
    name: value
    for file in ("defaults/main.yml", "vars/main.yml")
    for name, value in yaml.safe_load((ROLES / "nvidia_driver" / file).read_text()).items()
}
KEY = (
    "{{ __nvidia_driver_key | gpushare.nodes.packages_key(__nvidia_driver_system.key | default({}), 'nvidia',"
    " __nvidia_driver_repository) }}"
)


def show(
    folder: Path,
    system: tuple[str, str, str],
    facts: tuple[str, str],
    version: str = "580.65.06",
    **changed: Any,
) -> Ended:
    """Show what the role uses on a host with this os-release and these facts of Ansible."""
    names = ("id", "version", "like")
    variables = {
        **ROLE,
        "role_path": str(ROLES / "nvidia_driver"),
        "ansible_facts": {
            "distribution": facts[0],
            "distribution_major_version": system[1].partition(".")[0],
            "os_family": facts[1],
            "architecture": "x86_64",
            "kernel": "6.8.0-40-generic",
            "packages": {},
        },
        "__nvidia_driver_host": {
            "report": {"os": {**dict(zip(names, system, strict=True)), "name": system[0]}, "nvswitches": []}
        },
        "__nvidia_driver_with_fabric": False,
        "__nvidia_driver_target": version,
        "__nvidia_driver_plan": {"module": "proprietary"},
        **changed,
    }
    shown = [
        {"ansible.builtin.debug": {"msg": "repository {{ __nvidia_driver_repository }}"}},
        {"ansible.builtin.debug": {"msg": f"key {KEY}"}},
        {
            "ansible.builtin.debug": {
                "msg": "parts {{ __nvidia_driver_parts | map('first') | join(' ') }} end"
            }
        },
        {"ansible.builtin.debug": {"msg": "prefers {{ __nvidia_driver_preferred_module | default('') }}"}},
    ]
    return play("2.19", folder, [REFUSE, LOAD, *shown, WITHOUT_MODULE], **variables)


NOBLE = (("ubuntu", "24.04", "debian"), ("Ubuntu", "Debian"))
TRIXIE = (("debian", "13", ""), ("Debian", "Debian"))


@pytest.mark.parametrize(
    ("system", "facts", "home", "key"),
    [
        (*NOBLE, "ubuntu2404", "3bf863cc.pub"),
        (("ubuntu", "26.04", "debian"), ("Ubuntu", "Debian"), "ubuntu2604", "60DF8A40.pub"),
        (("debian", "12", ""), ("Debian", "Debian"), "debian12", "3bf863cc.pub"),
        (*TRIXIE, "debian13", "8793F200.pub"),
        (("almalinux", "9.6", "rhel centos fedora"), ("AlmaLinux", "RedHat"), "rhel9", "D42D0685.pub"),
        (("ol", "10.0", "fedora"), ("OracleLinux", "RedHat"), "rhel10", "CDF6BA43.pub"),
        (("amzn", "2023", "fedora"), ("Amazon", "RedHat"), "amzn2023", "D42D0685.pub"),
        (("centos", "7.9", "rhel fedora"), ("CentOS", "RedHat"), "rhel7", "D42D0685.pub"),
    ],
)
def test_a_system_has_its_repository_and_key(
    system: tuple[str, str, str], facts: tuple[str, str], home: str, key: str, tmp_path: Path
) -> None:
    done = show(tmp_path, system, facts)
    assert f"repository https://developer.download.nvidia.com/compute/cuda/repos/{home}/x86_64" in printed(
        done
    )
    assert key in done.stdout


@pytest.mark.parametrize(
    ("version", "module", "parts"),
    [
        ("580.65.06", "proprietary", "nvidia-headless-580 nvidia-utils-580"),
        ("580.65.06", "open", "nvidia-headless-580-open nvidia-utils-580"),
        ("595.71.05", "proprietary", "libnvidia-compute nvidia-dkms libnvidia-compute nvidia-persistenced"),
        ("615.71.09", "open", "libnvidia-compute nvidia-dkms-open libnvidia-compute nvidia-persistenced"),
    ],
)
def test_from_590_on_the_packages_of_ubuntu_have_no_branch(
    version: str, module: str, parts: str, tmp_path: Path
) -> None:
    done = show(tmp_path, *NOBLE, version, __nvidia_driver_plan={"module": module})
    assert f"parts {parts} end" in printed(done)


ALMA = (("almalinux", "9.6", "rhel centos fedora"), ("AlmaLinux", "RedHat"))


PRECOMPILED: dict[str, Any] = {"nvidia_driver_kernel_module": "precompiled"}


def test_nvidia_precompiles_only_the_proprietary_module_for_rpms(tmp_path: Path) -> None:
    done = show(tmp_path, *ALMA, **PRECOMPILED)
    assert "parts nvidia-driver nvidia-driver-cuda end" in printed(done)
    assert "prefers proprietary" in printed(done)
    refused = show(tmp_path, *ALMA, **PRECOMPILED, __nvidia_driver_plan={"module": "open"})
    assert "AlmaLinux 9 has no packages of the open kernel module: use dkms" in printed(refused)


def test_an_unknown_system_is_refused_with_the_settings_to_give(tmp_path: Path) -> None:
    fedora = (("fedora", "43", ""), ("Fedora", "RedHat"))
    refused = show(tmp_path, *fedora)
    assert refused.returncode != 0
    assert "set nvidia_driver_repo_url and nvidia_driver_repo_key" in printed(refused)
    mirror = {"nvidia_driver_repo_url": "https://mirror/fedora43", "nvidia_driver_repo_key": "/keys/a.asc"}
    given = show(tmp_path, fedora[0], fedora[1], "580.65.06", **mirror)
    assert given.returncode == 0, given.stdout
    assert "repository https://mirror/fedora43" in printed(given)
    assert "/keys/a.asc" in given.stdout


@pytest.mark.parametrize(
    ("kernel", "headers"),
    [
        ("5.14.0-427.13.1.el9_4.x86_64", "kernel-devel"),
        ("6.1.144-170.251.amzn2023.x86_64", "kernel-devel"),
        ("6.12.37-61.105.amzn2023.x86_64", "kernel6.12-devel"),
        ("5.15.0-209.161.7.2.el9uek.x86_64", "kernel-uek-devel"),
    ],
)
def test_the_headers_have_the_name_of_the_kernel(kernel: str, headers: str, tmp_path: Path) -> None:
    of_dnf: dict[str, Any] = yaml.safe_load((ROLES / "nvidia_driver/vars/RedHat.yml").read_text())
    variables = {**of_dnf, "ansible_facts": {"kernel": kernel}}
    shown = [{"ansible.builtin.debug": {"msg": "headers {{ __nvidia_driver_headers | join(' ') }} end"}}]
    assert f"headers {headers} end" in printed(play("2.19", tmp_path, shown, **variables))
