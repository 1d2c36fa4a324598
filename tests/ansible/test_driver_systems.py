"""Each system has its file with the packages of the driver; that of CentOS 7 is in ``ansible/legacy``."""

from pathlib import Path

import pytest
import yaml

from tests.ansible.cores import play
from tools.role_docs import ROLES

TASKS = yaml.safe_load((ROLES / "nvidia_driver/tasks/preflight.yml").read_text())
(LOAD,) = [task for task in TASKS if task["name"] == "Load the variables of the distribution"]


@pytest.mark.parametrize(
    ("system", "home"),
    [
        (("CentOS", "7", "RedHat"), "rhel7"),
        (("Rocky", "9", "RedHat"), "rhel9"),
        (("Debian", "12", "Debian"), "debian12"),
    ],
)
def test_a_system_has_its_repository(system: tuple[str, str, str], home: str, tmp_path: Path) -> None:
    names = ("distribution", "distribution_major_version", "os_family")
    variables = {
        "role_path": str(ROLES / "nvidia_driver"),
        "ansible_facts": dict(zip(names, system, strict=True)),
        "__nvidia_driver_nvidia": "https://nvidia",
        "__nvidia_driver_arch": "x86_64",
    }
    shown = {"ansible.builtin.debug": {"var": "__nvidia_driver_home"}}
    done = play("2.19", tmp_path, [LOAD, shown], **variables)
    assert f"https://nvidia/{home}/x86_64" in done.stdout, done.stdout + done.stderr
